// A language model as one device sees it: token ids in, hidden states, logits or losses out.
//
//   auto model = make_model(resolved_config);           // declares parameters, allocates nothing
//   model->allocate(arena, Dtype::bf16, /*with_master=*/true);
//   model->initialize(seed);                            // or read a checkpoint into params()
//   Var loss = model->loss(tape, {.ids = ids, .targets = targets}, /*recompute=*/{});
//
// A family (models/llama, gpt2, moe, bert) defines the embedding, the block, the final norm and the head, and
// declares them in units (nn/module.h): the embedding is unit 0, block i is unit i + 1, the final norm and the head are
// the last. Shapes: ids, targets [B,S] i32; hidden [B,S,C]; logits [n,V] f32; loss [B*S] f32 per token. Errors: Error.
// Thread rule: one thread per model.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/config/recompute.h"
#include "athanor/models/inputs.h"
#include "athanor/models/part.h"
#include "athanor/nn/attention.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/module.h"

namespace athanor::nn {
class MoeLayer;
}  // namespace athanor::nn

namespace athanor::models {

class Model : public Module {
 public:
  explicit Model(const ModelConfig& config);

  // Defined by the family. `cache`: the key/value cache of the block, or null.
  virtual Var embed(Tape& tape, const ModelInputs& inputs, int64_t first_position) const = 0;
  virtual Var block(int64_t index, const Var& x, KvCache* cache) const = 0;
  virtual Var final_norm(const Var& x) const = 0;
  virtual const Linear& head_layer() const = 0;
  virtual Weight* head_bias() const { return nullptr; }             // [V]; null: none
  virtual std::vector<MoeLayer*> moe_layers() const { return {}; }  // in the order of the blocks

  const ModelConfig& config() const { return config_; }
  Weight& head() const { return head_layer().weight(); }  // [V,C]
  // Pipeline: keeps the parameters of these parts. All others disappear from params() and weights() and get no memory.
  void keep(std::span<const ModelPart> parts);
  void allocate(Arena& arena, Dtype dtype, bool with_master, StateHome* home = nullptr);
  void initialize(uint64_t seed);

  // Activations of blocks that `recompute` does not name are kept. `caches` (one per block) are for passes without
  // gradients.
  Var hidden(Tape& tape, const ModelInputs& inputs, const RecomputePlan& recompute,
             std::vector<KvCache>* caches = nullptr) const;
  Var loss(Tape& tape, const ModelInputs& inputs, const RecomputePlan& recompute) const;
  // Runs one part. It reads `inputs` if part.embeds, else hidden states `x`. Output: the loss if part.ends, else hidden
  // states.
  Var run(const ModelPart& part, Tape& tape, const ModelInputs& inputs, Var x,
          const RecomputePlan& recompute) const;
  // Logits [B,V] f32 of the last position of each sequence. Appends to the caches.
  Tensor next_logits(Tape& tape, const Tensor& ids, std::vector<KvCache>& caches) const;
  std::vector<KvCache> make_caches(int64_t capacity) const;

  // Vocabulary parallelism (models/sharding.h): see linear_cross_entropy in ops/ops.h.
  void set_combine_statistics(CombineStatistics combine) { combine_statistics_ = std::move(combine); }

  int64_t num_params() const;  // of the full model, whichever parts this rank keeps
  // FLOPs per token, forward and backward: 6 * parameters in matrix products + 12 * head_dim * the pairs of positions that
  // attention sees, of all layers and heads, / S; in causal order that is 6 * layers * S * heads * head_dim, in an encoder
  // twice that. Of experts only those that a token is routed to count.
  double flops_per_token(int64_t seq_len) const;

 protected:
  RopeTable rope_;  // set by allocate() if uses_rope()
  virtual bool uses_rope() const = 0;
  virtual double part_used_by_a_token(const ParamSpec&) const { return 1.0; }
  // Who sees whom in a block; null: all that come before, in an encoder all.
  const LayerMask* layer_mask(int64_t block) const {
    return layer_masks_.empty() ? nullptr : &layer_masks_[static_cast<size_t>(block)];
  }

 private:
  Var start(Tape& tape, const ModelInputs& inputs, int64_t first_position) const;
  Var blocks(int64_t first, int64_t last, Var x) const;
  Var blocks(int64_t first, int64_t last, Var x, const RecomputePlan& recompute) const;

  ModelConfig config_;
  std::vector<LayerMask> layer_masks_;
  CombineStatistics combine_statistics_;
};

RopeScaling rope_scaling_of(const ModelConfig& config);

// Standard deviation of projections that write to the residual stream: smaller by sqrt(2 * layers), so that the
// stream's variance does not grow with depth (GPT-2).
double residual_init_std(const ModelConfig& config);

// The model of a resolved config (config/presets.h fills it in); Error on an unknown family.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace athanor::models
