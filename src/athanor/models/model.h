// A language model as one device sees it: token ids in, hidden states, logits or losses out.
//
//   auto model = make_model(resolved_config);           // declares parameters, allocates nothing
//   model->allocate(arena, Dtype::bf16, /*with_master=*/true);
//   model->initialize(seed);                            // or read a checkpoint into params()
//   Var loss = model->loss(tape, ids, targets, /*recompute=*/{});
//
// A family (models/llama, models/gpt2) says how to embed, what a block is and what comes after the last one;
// the rest is here. Its modules are named "blocks.N", "norm" (after the last block) and "head"; all others
// embed (models/part.h tells the stages of a pipeline by that). Shapes: ids, targets [B,S] i32; hidden
// [B,S,C]; logits [n,V] f32; loss [B*S] f32 per token. Thread rule: one thread per model.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/config/recompute.h"
#include "athanor/models/part.h"
#include "athanor/nn/attention.h"
#include "athanor/nn/module.h"

namespace athanor {

class MoeLayer;

class Model : public Module {
 public:
  explicit Model(const ModelConfig& config) : Module(nullptr, ""), config_(config) {}

  // What a family defines. `caches` is null or has one entry per block.
  virtual Var embed(Tape& tape, const Tensor& ids, int64_t first_position) const = 0;
  virtual Var block(int64_t index, const Var& x, KvCache* cache) const = 0;
  virtual Var final_norm(const Var& x) const = 0;
  virtual Weight& head() const = 0;                                 // [V,C]
  virtual std::vector<MoeLayer*> moe_layers() const { return {}; }  // in the order of the blocks

  const ModelConfig& config() const { return config_; }
  // Keeps the parameters of these parts: the others are not listed in params() and weights() and get no
  // memory.
  void keep(std::span<const ModelPart> parts);
  void allocate(Arena& arena, Dtype dtype, bool with_master);
  void initialize(uint64_t seed);

  // What `recompute` says nothing about is kept; caches (one per block) are for passes without gradients.
  Var hidden(Tape& tape, const Tensor& ids, const RecomputePlan& recompute,
             std::vector<KvCache>* caches = nullptr) const;
  Var loss(Tape& tape, const Tensor& ids, const Tensor& targets, const RecomputePlan& recompute) const;
  // One part: from ids if it embeds, else from the hidden states `x`; to the loss if it ends, else to
  // hidden states.
  Var run(const ModelPart& part, Tape& tape, const Tensor& ids, Var x, const Tensor& targets,
          const RecomputePlan& recompute) const;
  // Logits [B,V] f32 of the last position of each sequence, appending to the caches.
  Tensor next_logits(Tape& tape, const Tensor& ids, std::vector<KvCache>& caches) const;
  std::vector<KvCache> make_caches(int64_t capacity) const;

  // Of a model whose head is cut by rows (models/sharding.h): see linear_cross_entropy in ops/ops.h.
  void set_combine_statistics(CombineStatistics combine) { combine_statistics_ = std::move(combine); }

  int64_t num_params() const;  // of the whole model, kept or not
  // 6 * parameters in products + 6 * layers * S * heads * head_dim (causal), per token, forward and backward; of
  // experts those that a token goes to.
  double flops_per_token(int64_t seq_len) const;

 protected:
  RopeTable rope_;  // set by allocate() for families that rotate
  virtual bool uses_rope() const = 0;
  virtual double part_used_by_a_token(const Param&) const { return 1.0; }

 private:
  Var start(Tape& tape, const Tensor& ids, int64_t first_position) const;
  Var blocks(int64_t first, int64_t last, Var x) const;
  Var blocks(int64_t first, int64_t last, Var x, const RecomputePlan& recompute) const;

  ModelConfig config_;
  CombineStatistics combine_statistics_;
};

// Projections that write to the residual stream start smaller, by sqrt(2 * layers), so that its variance does
// not grow with depth (GPT-2).
double residual_init_std(const ModelConfig& config);

// The model of a resolved config (config/presets.h fills it in); Error on an unknown family.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace athanor
