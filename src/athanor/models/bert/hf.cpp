#include "athanor/models/bert/hf.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::models::bert {
namespace {

using Json = nlohmann::ordered_json;

// What both families share; `model.max_position_embeddings` are the rows of the table.
ModelConfig read_config(const HfConfig& config, int64_t vocab_size, int64_t positions, int64_t types) {
  ModelConfig model;
  model.model_type = "bert";
  model.num_hidden_layers = config.integer("num_hidden_layers", 12);
  model.hidden_size = config.integer("hidden_size", 768);
  model.num_attention_heads = model.num_key_value_heads = config.integer("num_attention_heads", 12);
  if (model.num_attention_heads == 0 || model.hidden_size % model.num_attention_heads != 0)
    config.refuse("hidden_size", fmt::format("got {}, expected a multiple of num_attention_heads = {}",
                                             model.hidden_size, model.num_attention_heads));
  model.head_dim = model.hidden_size / model.num_attention_heads;
  model.intermediate_size = config.integer("intermediate_size", 3072);
  model.vocab_size = config.integer("vocab_size", vocab_size);
  model.max_position_embeddings = config.integer("max_position_embeddings", positions);
  model.type_vocab_size = config.integer("type_vocab_size", types);
  model.rms_norm_eps = config.number("layer_norm_eps", 1e-12);
  model.initializer_range = config.number("initializer_range", 0.02);
  model.dropout = config.number("hidden_dropout_prob", 0.1);
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  model.bias = true;
  model.attention_pattern = "full";
  model.hidden_act = config.text("hidden_act", "gelu");
  if (model.hidden_act == "gelu_pytorch_tanh") model.hidden_act = "gelu_new";
  if (model.hidden_act != "gelu" && model.hidden_act != "gelu_new")
    config.refuse("hidden_act",
                  fmt::format("got '{}', expected gelu or gelu_new", model.hidden_act.substr(0, 60)));
  if (const std::string kind = config.text("position_embedding_type", "absolute"); kind != "absolute")
    config.refuse("position_embedding_type", fmt::format("got '{}', expected absolute", kind.substr(0, 60)));
  config.expect("is_decoder", false);
  config.expect_absent("quantization_config");
  return model;
}

ModelConfig read_bert_config(const HfConfig& config) {
  return read_config(config, 30522, 512, 2);
}

ModelConfig read_roberta_config(const HfConfig& config) {
  ModelConfig model = read_config(config, 50265, 512, 2);
  model.position_offset = config.integer("pad_token_id", 1) + 1;
  if (model.position_offset >= model.max_position_embeddings)
    config.refuse("max_position_embeddings",
                  fmt::format("got {}, expected more than the {} rows up to padding",
                              model.max_position_embeddings, model.position_offset));
  model.max_position_embeddings -= model.position_offset;
  return model;
}

void write_config(const ModelConfig& model, Json& config) {
  check(model.num_attention_heads * model.head_dim == model.hidden_size &&
            model.num_key_value_heads == model.num_attention_heads,
        "export: got bert with {} heads of {} and width {}, expected heads * head_dim = width: the format "
        "has no "
        "head_dim",
        model.num_attention_heads, model.head_dim, model.hidden_size);
  check(model.bias,
        "export: got a bert without biases, expected model.bias = true: the format has them always");
  check(model.attention_pattern == "full",
        "model.attention_pattern: got '{}', expected 'full': no BERT of Hugging Face has another",
        model.attention_pattern);
  check(model.type_vocab_size > 0,
        "export: got a bert without token types, expected model.type_vocab_size above 0");
  config["vocab_size"] = model.vocab_size;
  config["hidden_size"] = model.hidden_size;
  config["num_hidden_layers"] = model.num_hidden_layers;
  config["num_attention_heads"] = model.num_attention_heads;
  config["intermediate_size"] = model.intermediate_size;
  config["hidden_act"] = model.hidden_act;
  config["hidden_dropout_prob"] = model.dropout;
  config["attention_probs_dropout_prob"] = 0.0;
  config["max_position_embeddings"] = model.max_position_embeddings + model.position_offset;
  config["type_vocab_size"] = model.type_vocab_size;
  config["initializer_range"] = model.initializer_range;
  config["layer_norm_eps"] = model.rms_norm_eps;
  config["position_embedding_type"] = "absolute";
  config["classifier_dropout"] = nullptr;
  config["tie_word_embeddings"] = model.tie_word_embeddings;
  if (model.position_offset > 0) config["pad_token_id"] = model.position_offset - 1;
}

struct HeadNames {
  const char* dense;
  const char* norm;
  const char* bias;
  const char* untied;
};
constexpr HeadNames kBertHead = {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                                 "cls.predictions.bias", "cls.predictions.decoder.weight"};
constexpr HeadNames kRobertaHead = {"lm_head.dense", "lm_head.layer_norm", "lm_head.bias",
                                    "lm_head.decoder.weight"};

std::vector<HfTensor> tensors(const ModelConfig& model, const std::string& root, const HeadNames& head) {
  const std::string embeddings = root + "embeddings.";
  std::vector<HfTensor> all = {{embeddings + "word_embeddings.weight", {"embed.weight"}},
                               {embeddings + "position_embeddings.weight", {"positions.weight"}},
                               {embeddings + "token_type_embeddings.weight", {"token_types.weight"}}};
  const auto layer = [&](const std::string& name, const std::string& ours) {
    for (const char* kind : {".weight", ".bias"}) all.push_back({name + kind, {ours + kind}});
  };
  layer(embeddings + "LayerNorm", "embed_norm");
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const std::string there = fmt::format("{}encoder.layer.{}.", root, i),
                      here = fmt::format("blocks.{}.", i);
    layer(there + "attention.self.query", here + "attn.q");
    layer(there + "attention.self.key", here + "attn.k");
    layer(there + "attention.self.value", here + "attn.v");
    layer(there + "attention.output.dense", here + "attn.o");
    layer(there + "attention.output.LayerNorm", here + "attn_norm");
    layer(there + "intermediate.dense", here + "mlp.up");
    layer(there + "output.dense", here + "mlp.down");
    layer(there + "output.LayerNorm", here + "mlp_norm");
  }
  layer(head.dense, "transform");
  layer(head.norm, "norm");
  all.push_back({head.bias, {"head.bias"}});
  if (!model.tie_word_embeddings) all.push_back({head.untied, {"head.weight"}});
  return all;
}

std::vector<HfTensor> bert_tensors(const ModelConfig& model) {
  return tensors(model, "bert.", kBertHead);
}

std::vector<HfTensor> roberta_tensors(const ModelConfig& model) {
  return tensors(model, "roberta.", kRobertaHead);
}

// The pooler and the next-sentence head; buffers; other names of the tied head and of its bias.
bool is_ignored(std::string_view name, const ModelConfig& model) {
  return name.find("pooler.dense.") != std::string_view::npos || name.starts_with("cls.seq_relationship.") ||
         name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids") ||
         name == "cls.predictions.decoder.bias" || name == "lm_head.decoder.bias" ||
         (model.tie_word_embeddings &&
          (name == "cls.predictions.decoder.weight" || name == "lm_head.decoder.weight"));
}

}  // namespace

const HfFamily& bert_hf() {
  static constexpr HfFamily family = {"bert",       "BertForMaskedLM", "bert.",   read_bert_config,
                                      write_config, bert_tensors,      is_ignored};
  return family;
}

const HfFamily& roberta_hf() {
  static constexpr HfFamily family = {"roberta",    "RobertaForMaskedLM", "roberta.", read_roberta_config,
                                      write_config, roberta_tensors,      is_ignored};
  return family;
}

bool is_roberta(const ModelConfig& model) {
  return model.model_type == "bert" && model.position_offset > 0;
}

}  // namespace athanor::models::bert
