#include "athanor/models/model.h"

#include <algorithm>
#include <cmath>

#include "athanor/autograd/recompute.h"
#include "athanor/kernels/table.h"
#include "athanor/masks/pattern.h"
#include "athanor/models/bert/bert.h"
#include "athanor/models/gpt2/gpt2.h"
#include "athanor/models/llama/llama.h"
#include "athanor/models/moe/moe.h"

namespace athanor::models {

Model::Model(const ModelConfig& config) : Module(nullptr, ""), config_(config) {
  const AttentionPattern pattern = AttentionPattern::parse(config.attention_pattern);
  if (config.is_encoder() ? pattern.text() == "full" : pattern.is_plain_causal()) return;
  layer_masks_.reserve(static_cast<size_t>(config.num_hidden_layers));  // blocks keep pointers to them
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    layer_masks_.emplace_back(
        [pattern, layer](const MaskRequest& request) { return mask_of(pattern, request, layer); });
}

void Model::keep(std::span<const ModelPart> parts) {
  keep_units([&](int unit) {
    return std::any_of(parts.begin(), parts.end(), [&](const ModelPart& part) { return part.has(unit); });
  });
}

void Model::allocate(Arena& arena, Dtype dtype, bool with_master, StateHome* home) {
  for (const auto& param : params()) param->allocate(arena, dtype, with_master, home);
  if (uses_rope())
    rope_ = make_rope_table(arena, config_.max_position_embeddings, config_.head_dim, config_.rope_theta,
                            rope_scaling_of(config_));
}

RopeScaling rope_scaling_of(const ModelConfig& config) {
  return {.method = config.rope_scaling,
          .factor = config.rope_factor,
          .original_length = config.original_context(),
          .low_freq_factor = config.rope_low_freq_factor,
          .high_freq_factor = config.rope_high_freq_factor,
          .beta_fast = config.rope_beta_fast,
          .beta_slow = config.rope_beta_slow,
          .truncate = config.rope_truncate,
          .attention_factor = config.rope_attention_factor};
}

void Model::initialize(uint64_t seed) {
  for (const auto& param : params()) param->initialize(seed);
}

Var Model::blocks(int64_t first, int64_t last, Var x) const {
  for (int64_t i = first; i < last; ++i) x = block(i, x, nullptr);
  return x;
}

Var Model::start(Tape& tape, const ModelInputs& inputs, int64_t first_position) const {
  const Tensor& ids = inputs.ids;
  check(first_position + ids.dim(1) <= config_.max_position_embeddings,
        "model: got position {}, expected below max_seq_len {}", first_position + ids.dim(1) - 1,
        config_.max_position_embeddings);
  return embed(tape, inputs, first_position);
}

Var Model::blocks(int64_t first, int64_t last, Var x, const RecomputePlan& plan) const {
  Tape& tape = *x.tape;
  int64_t i = first, part_first = 0;  // the plan counts from the first block of the model
  for (const RecomputePart& part : tape.recording() ? plan : RecomputePlan{}) {
    const int64_t part_last = part.blocks == 0 ? config_.num_hidden_layers : part_first + part.blocks;
    const int64_t end = std::min(last, part_last);
    for (int64_t next = 0; i < end; i = next) {
      next = part.policy == Recompute::full ? std::min(end, i + part.group) : i + 1;
      tape.begin_block(x);
      if (part.policy == Recompute::selective) tape.begin_selective_recompute();
      x = part.policy == Recompute::full
              ? recompute(x, [this, i, next](const Var& input) { return blocks(i, next, input); })
              : blocks(i, next, x);
      if (part.policy == Recompute::selective) tape.end_selective_recompute(x);
      tape.end_block(x);
    }
    part_first = part_last;
  }
  for (; i < last; ++i) {
    tape.begin_block(x);
    x = block(i, x, nullptr);
    tape.end_block(x);
  }
  return x;
}

Var Model::hidden(Tape& tape, const ModelInputs& inputs, const RecomputePlan& plan,
                  std::vector<KvCache>* caches) const {
  Var x = start(tape, inputs, caches == nullptr ? 0 : caches->front().length);
  if (caches == nullptr) return final_norm(blocks(0, config_.num_hidden_layers, x, plan));
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) x = block(i, x, &(*caches)[static_cast<size_t>(i)]);
  return final_norm(x);
}

Var Model::run(const ModelPart& part, Tape& tape, const ModelInputs& inputs, Var x,
               const RecomputePlan& plan) const {
  check(part.embeds != (x.value.defined()), "pipeline: got {} hidden states for a stage that {}",
        x.value.defined() ? "some" : "no", part.embeds ? "has the embedding" : "has no embedding");
  if (part.embeds) x = start(tape, inputs, 0);
  x = blocks(part.first, part.last, x, plan);
  if (!part.ends) return x;
  Var loss = linear_cross_entropy(head_layer().enter(final_norm(x)), head(), head_bias(), inputs.targets,
                                  config_.vocab_size, combine_statistics_);
  if (!tape.recording()) return loss;
  head().grad_ready(tape.context().micro_batch);  // its gradient was made with the loss
  if (head_bias() != nullptr) head_bias()->grad_ready(tape.context().micro_batch);
  return loss;
}

Var Model::loss(Tape& tape, const ModelInputs& inputs, const RecomputePlan& plan) const {
  return run({0, config_.num_hidden_layers, true, true}, tape, inputs, {}, plan);
}

Tensor Model::next_logits(Tape& tape, const Tensor& ids, std::vector<KvCache>& caches) const {
  check(ids.dim(0) == 1 && ids.dim(1) > 0, "model: got ids {}, expected one sequence", ids.shape());
  check(!combine_statistics_,
        "model: got parameters partitioned over ranks, expected a whole model: a rank has only some logits");
  check(!config_.is_encoder(),
        "generate: got a {}, expected a decoder: an encoder fills in masked tokens and continues no text",
        config_.model_type);
  const Tensor x = hidden(tape, {.ids = ids}, {}, &caches).value;
  const Tensor last = x.view({x.dim(1), x.dim(2)}).slice(x.dim(1) - 1, x.dim(1));
  const Tensor& weight = head().value();
  Tensor logits = empty(x.arena(), {1, weight.dim(0)}, Dtype::f32, Category::activations);
  kernels_of(x).gemm.nt(x.queue(), logits, last, weight, nullptr);
  return logits;
}

std::vector<KvCache> Model::make_caches(int64_t capacity) const {
  const Tensor& like = head().value();
  std::vector<KvCache> caches(static_cast<size_t>(config_.num_hidden_layers));
  const Shape shape{capacity, config_.num_key_value_heads, config_.head_dim};
  for (KvCache& cache : caches) {
    cache.k = empty(like.arena(), shape, like.dtype(), Category::activations);
    cache.v = empty(like.arena(), shape, like.dtype(), Category::activations);
  }
  return caches;
}

int64_t Model::num_params() const {
  int64_t sum = 0;
  for_each_declared([&](const ParamSpec& param) {
    if (!param.is_state()) sum += param.whole_shape().numel();
  });
  return sum;
}

double Model::flops_per_token(int64_t seq_len) const {
  // A lookup is no matrix product, so uses as an embedding do not count.
  double in_products = static_cast<double>(head().param().whole_shape().numel());
  for_each_declared([&](const ParamSpec& param) {
    if (param.is_matrix() && !param.is_table() && &param != &head().param())
      in_products += static_cast<double>(param.whole_shape().numel()) * part_used_by_a_token(param);
  });
  const int64_t layers = config_.num_hidden_layers, heads = config_.num_attention_heads;
  double pairs =
      static_cast<double>(layers * heads * seq_len) / (config_.is_encoder() ? 1.0 : 2.0);  // of a token
  if (!layer_masks_.empty() && seq_len > 0) {
    int64_t seen = 0;
    for (const LayerMask& layer : layer_masks_)
      seen += layer.of({.positions = {{{0, seq_len}}, {{0, seq_len}}}, .length = seq_len, .heads = heads})
                  ->pairs_of_all_heads();
    pairs = static_cast<double>(seen) / static_cast<double>(seq_len);
  }
  return 6.0 * in_products + 12.0 * static_cast<double>(config_.head_dim) * pairs;
}

double residual_init_std(const ModelConfig& config) {
  return config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  if (config.model_type == "llama") return std::make_unique<Llama>(config);
  if (config.model_type == "gpt2") return std::make_unique<Gpt2>(config);
  if (config.model_type == "bert") return std::make_unique<bert::Bert>(config);
  if (config.has_experts()) return std::make_unique<Moe>(config);
  fail("model: got model_type '{}', expected llama, gpt2, mixtral, moe or bert", config.model_type);
}

}  // namespace athanor::models
