#include "athanor/config/field_lists.h"

namespace athanor::config {

std::vector<Field<Config>> model_fields() {
  using C = Config;
  using M = ModelConfig;
  return {
      {"model", "preset",
       "named model size, which other keys of [model] override; empty: the smallest of model_type",
       "Start from the preset nearest to the model that you want; 'athanor init --help' lists them.",
       at<&C::model, &M::preset>, any()},
      {"model", "config",
       "Hugging Face config.json, or its folder, that has the sizes of the model; empty: none",
       "Use it in place of preset, to train a new model of a published shape. Other keys of [model] may add "
       "what the file does not say, such as llama's dropout; what contradicts it is refused. Weights are "
       "taken "
       "by train.init_from instead.",
       at<&C::model, &M::config>, path()},
      {"model", "model_type", "architecture",
       "llama has RMSNorm, RoPE and SwiGLU; gpt2 has LayerNorm, learned positions and GELU. mixtral and moe "
       "are llama with experts in place of the MLP, moe with settings that Mixtral has not. bert is an "
       "encoder "
       "(BERT, RoBERTa, BigBird): it fills in masked tokens, with the text on both sides in view.",
       at<&C::model, &M::model_type>, one_of({"llama", "gpt2", "mixtral", "moe", "bert"})},
      {"model", "num_hidden_layers", "transformer blocks; 0: of the preset or model_type",
       "Parameters, activations and the time of a step grow in proportion.",
       at<&C::model, &M::num_hidden_layers>, at_least(0, 10000)},
      {"model", "hidden_size", "width of the residual stream (d_model); 0: of the preset or model_type",
       "Parameters and the time of a block grow with its square. Multiples of 64 make the fastest matrix "
       "products.",
       at<&C::model, &M::hidden_size>, at_least(0, 1 << 20)},
      {"model", "num_attention_heads", "query heads; 0: of the preset or model_type",
       "More heads of a smaller head_dim cost the same. parallel.tp must divide it.",
       at<&C::model, &M::num_attention_heads>, at_least(0, 1 << 16)},
      {"model", "num_key_value_heads",
       "key and value heads (grouped-query attention); 0: num_attention_heads",
       "Fewer shrink the KV cache of generation and the key and value matrices in proportion, at some loss "
       "of quality. It divides num_attention_heads.",
       at<&C::model, &M::num_key_value_heads>, at_least(0, 1 << 16)},
      {"model", "head_dim", "elements of a head; 0: hidden_size / num_attention_heads",
       "Set it only for weights whose heads have another size. It is even, because RoPE rotates pairs.",
       at<&C::model, &M::head_dim>, at_least(0, 1 << 14)},
      {"model", "intermediate_size",
       "hidden size of the MLP; 0: 4 hidden_size (gpt2, bert), 8/3 hidden_size (others)",
       "About two thirds of a block's parameters and of its time are here.",
       at<&C::model, &M::intermediate_size>, at_least(0, 1 << 22)},
      {"model", "vocab_size", "token ids; 0: the tokenizer's, up to a multiple of 64",
       "It may exceed the tokenizer's. An id costs hidden_size parameters, twice that without "
       "tie_word_embeddings, and its share of the last product.",
       at<&C::model, &M::vocab_size>, at_least(0, 1 << 28)},
      {"model", "max_position_embeddings", "longest context, in tokens; 0: of the preset, else data.seq_len",
       "evaluate and generate take no longer context. In gpt2 a position costs hidden_size parameters; with "
       "RoPE it costs a row of a table.",
       at<&C::model, &M::max_position_embeddings>, at_least(0, 1 << 30)},
      {"model", "tie_word_embeddings", "one matrix for input and output embeddings",
       "It saves vocab_size x hidden_size parameters. It pays in small models; large ones are usually "
       "untied.",
       at<&C::model, &M::tie_word_embeddings>, any()},
      {"model", "bias", "biases in linear layers",
       "GPT-2 has them, LLaMA has not; models with experts cannot. The cost is small.",
       at<&C::model, &M::bias>, any()},
      {"model", "dropout", "dropout probability of embeddings and residuals, in training",
       "0 is right for a corpus that is read once; 0.1 helps where a small one is read many times. It costs "
       "a random number for every element.",
       at<&C::model, &M::dropout>, below(0, 1)},
      {"model", "hidden_act", "activation of the MLP; empty: that of model_type",
       "silu in llama, gelu_new (tanh form) in gpt2; bert has gelu (exact) or gelu_new. Set it for weights "
       "that "
       "were trained with another.",
       at<&C::model, &M::hidden_act>, one_of({"", "silu", "gelu", "gelu_new"})},
      {"model", "type_vocab_size", "bert: token types, which tell the texts of a pair apart; 0: none",
       "BERT has 2, RoBERTa 1. All tokens of a sequence are of the first.",
       at<&C::model, &M::type_vocab_size>, at_least(0, 1 << 16)},
      {"model", "position_offset", "bert: rows of the position table before that of the first position",
       "2 in RoBERTa's weights, whose first rows are unused; 0 in new models.",
       at<&C::model, &M::position_offset>, at_least(0, 1 << 16)},
      {"model", "attention_pattern", "which tokens a token attends to, by layers and heads",
       "\"causal + window:1024\" is a sliding window; docs/attention.md has the terms, 'athanor attention "
       "show' "
       "the picture. Time and memory traffic of attention fall with the blocks that nobody sees.",
       at<&C::model, &M::attention_pattern>, any()},
      {"model", "rope_theta", "base of rotary position embeddings (RoPE)",
       "Raise it for longer contexts: Llama 3 has 500000. gpt2 has no RoPE.", at<&C::model, &M::rope_theta>,
       above(0)},
      {"model", "rope_scaling", "how rotary frequencies are stretched for a longer context",
       "yarn needs least training at the new length; llama3 is that of Llama 3.1 and later; linear and ntk "
       "are "
       "older. A phase may set it, to extend the context at the end of a run. It costs nothing.",
       at<&C::model, &M::rope_scaling>, one_of({"none", "linear", "ntk", "llama3", "yarn"})},
      {"model", "rope_factor", "how many times longer the context becomes, with rope_scaling",
       "New context / original context; larger ones lose some quality at short range.",
       at<&C::model, &M::rope_factor>, at_least(1)},
      {"model", "rope_original_length",
       "llama3, yarn: context before it was stretched, in tokens; 0: max_position_embeddings / rope_factor",
       "The longest sequence of the training so far: 8192 in Llama 3.1.",
       at<&C::model, &M::rope_original_length>, at_least(0, 1 << 30)},
      {"model", "rope_low_freq_factor",
       "llama3: pairs that turn fewer times than this within the original context are stretched in full",
       "Leave it, but for weights that were trained with another.", at<&C::model, &M::rope_low_freq_factor>,
       above(0)},
      {"model", "rope_high_freq_factor",
       "llama3: pairs that turn more often than this within the original context are kept",
       "Leave it, but for weights that were trained with another.", at<&C::model, &M::rope_high_freq_factor>,
       above(0)},
      {"model", "rope_beta_fast",
       "yarn: pairs that turn more often than this within the original context are kept",
       "Leave it, but for weights that were trained with another.", at<&C::model, &M::rope_beta_fast>,
       above(0)},
      {"model", "rope_beta_slow",
       "yarn: pairs that turn fewer times than this within the original context are stretched in full",
       "Leave it, but for weights that were trained with another.", at<&C::model, &M::rope_beta_slow>,
       above(0)},
      {"model", "rope_truncate", "yarn: whether the ends of the ramp are rounded outward to whole pairs",
       "gpt-oss has false, all others true.", at<&C::model, &M::rope_truncate>, any()},
      {"model", "rope_attention_factor",
       "yarn: factor on cosine and sine of the rotation; 0: 0.1 ln rope_factor + 1",
       "It sharpens attention, whose scores grow with its square. Leave it, but for weights that were "
       "trained "
       "with another.",
       at<&C::model, &M::rope_attention_factor>, at_least(0)},
      {"model", "rms_norm_eps", "epsilon of RMSNorm, in gpt2 and bert of LayerNorm",
       "Leave it, but for weights that were trained with another.", at<&C::model, &M::rms_norm_eps>,
       above(0)},
      {"model", "initializer_range", "standard deviation of initial weights",
       "Projections into the residual stream are scaled down by the square root of 2 num_hidden_layers as "
       "well.",
       at<&C::model, &M::initializer_range>, above(0)},
      {"model", "num_experts", "mixtral, moe: routed experts of a layer; 0: of the preset or model_type",
       "Parameters grow in proportion, the time of a token does not. parallel.ep divides it.",
       at<&C::model, &M::num_experts>, at_least(0, 4096)},
      {"model", "num_experts_per_tok",
       "mixtral, moe: experts that a token is routed to (top-k); 0: of the preset or model_type",
       "The time and the activations of expert layers grow in proportion.",
       at<&C::model, &M::num_experts_per_tok>, at_least(0, 4096)},
      {"model", "moe_intermediate_size", "mixtral, moe: hidden size of an expert; 0: intermediate_size",
       "Many small experts divide the work more finely (DeepSeek), at the price of smaller matrix products.",
       at<&C::model, &M::moe_intermediate_size>, at_least(0, 1 << 22)},
      {"model", "n_shared_experts", "moe: experts that see every token, as one MLP",
       "They keep common knowledge out of the routed experts; each costs the time of one more expert per "
       "token.",
       at<&C::model, &M::n_shared_experts>, at_least(0, 4096)},
      {"model", "first_k_dense_replace", "moe: first blocks that have a dense MLP in place of experts",
       "Routing is unstable in the first layers of deep models: DeepSeek-V3 has 3.",
       at<&C::model, &M::first_k_dense_replace>, at_least(0, 10000)},
      {"model", "scoring_func", "moe: function of the router's scores",
       "softmax with a load-balancing loss is Mixtral's; sigmoid with router_bias_update_rate is "
       "DeepSeek-V3's.",
       at<&C::model, &M::scoring_func>, one_of({"softmax", "sigmoid"})},
      {"model", "norm_topk_prob", "moe: whether the weights of a token's experts are normalized to sum to 1",
       "Mixtral and DeepSeek-V3 do, DeepSeekMoE does not.", at<&C::model, &M::norm_topk_prob>, any()},
      {"model", "routed_scaling_factor", "moe: factor on the weights of routed experts",
       "1 with softmax scores; DeepSeek-V3 has 2.5.", at<&C::model, &M::routed_scaling_factor>, above(0)},
      {"model", "router_aux_loss_coef", "mixtral, moe: coefficient of the load-balancing loss",
       "0.001 to 0.02 is usual. Too little leaves experts unused, too much costs quality. metrics.jsonl has "
       "the load imbalance.",
       at<&C::model, &M::router_aux_loss_coef>, at_least(0)},
      {"model", "router_z_loss_coef", "mixtral, moe: coefficient of the router z-loss",
       "0.001 keeps the router's logits small where training is unstable.",
       at<&C::model, &M::router_z_loss_coef>, at_least(0)},
      {"model", "router_bias_update_rate", "moe: step of the load-balancing bias; 0: no bias",
       "It balances experts without a loss: 0.001 in DeepSeek-V3, more in short runs. Set "
       "router_aux_loss_coef to 0 beside it.",
       at<&C::model, &M::router_bias_update_rate>, at_least(0)},
      {"model", "capacity_factor",
       "mixtral, moe: capacity of an expert over the mean load; 0: no token is dropped",
       "1 to 1.25 bounds the memory and the time of an expert under imbalance; tokens beyond it skip the "
       "layer in training, which costs quality.",
       at<&C::model, &M::capacity_factor>, at_least(0)},
  };
}

}  // namespace athanor::config
