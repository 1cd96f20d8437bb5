// Keys of config.json that do not change the function of a model. Every other key is read by a family or refused by
// name, since an ignored key might change what the model computes.
#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cctype>

#include "athanor/models/hf_family.h"

namespace athanor::models {
namespace {

constexpr auto kWithoutEffect = std::to_array<std::string_view>(
    {// Names, versions, and how the weights are stored (safetensors files say that themselves).
     "_name_or_path", "name_or_path", "model_type", "transformers_version", "transformers.js_config",
     "torch_dtype", "dtype", "use_bfloat16", "_commit_hash", "unsloth_version", "unsloth_fixed",
     "tokenizer_class", "prefix", "model_max_length", "max_sequence_length", "n_ctx",
     // Token ids: text/special_tokens.h reads them.
     "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id",
     // What a call returns, and how it is computed.
     "use_cache", "cache_implementation", "return_dict", "use_return_dict", "return_dict_in_generate",
     "torchscript", "output_attentions", "output_hidden_states", "output_scores", "output_router_logits",
     "tf_legacy_loss", "chunk_size_feed_forward", "reorder_and_upcast_attn", "gradient_checkpointing",
     "pretraining_tp", "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
     "_flash_attn_2_enabled", "add_pooling_layer",
     // Dropout in training: model.dropout sets it here.
     "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop", "resid_pdrop",
     "hidden_dropout", "classifier_dropout",
     // Tasks other than next-token prediction.
     "id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
     "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
     "summary_use_proj", "predict_special_tokens", "n_special", "is_decoder",
     // Sampling settings of older versions.
     "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
     "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
     "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
     "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
     "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"});

// Keys of other families that change nothing while they are 1.
constexpr std::array kNeutralAtOne = {
    "rotary_pct",          "rope_pct",       "rotary_percentage", "embedding_multiplier",
    "residual_multiplier", "logits_scaling", "logit_scale"};

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

void check_architecture(const HfFamily& family, const HfConfig& config) {
  const std::vector<std::string> named = config.texts("architectures");
  const std::string with_head = family.architecture;
  std::string bare = with_head;
  for (const std::string_view ending : {"LMHeadModel", "ForCausalLM", "ForMaskedLM"})
    if (bare.ends_with(ending)) bare.resize(bare.size() - ending.size());
  const auto known = [&](const std::string& name) {
    return same_letters(name, with_head) || same_letters(name, bare + "Model") ||
           (with_head.ends_with("ForMaskedLM") && same_letters(name, bare + "ForPreTraining"));
  };
  if (!named.empty() && std::ranges::none_of(named, known))
    config.refuse("architectures",
                  fmt::format("got '{}', expected {}", named.front().substr(0, 100), with_head));
}

}  // namespace

ModelConfig read_hf_config(const HfFamily& family, const HfConfig& config) {
  check_architecture(family, config);
  ModelConfig model = family.read(config);
  for (const char* key : kNeutralAtOne)
    if (const double value = config.number(key, 1.0); value != 1.0)
      config.refuse(key,
                    fmt::format("got {}, expected 1: this variant of the model is not supported", value));
  for (const char* key : {"is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"})
    config.expect(key, false);
  config.refuse_the_rest(kWithoutEffect);
  return model;
}

}  // namespace athanor::models
