// How each family is cut over the ranks of axis tp: one table per family, beside its model
// (models/llama/sharding.cpp).
//
//   auto model = make_model(config);
//   shard_model(*model, sharding_of(config, /*sequence_parallel=*/true), tp_group);
//   model->allocate(...);                                          // then initialize() or read weights
//
// Attention is cut by heads, feed-forward layers by their inner width, embedding and head by vocabulary. With
// sequence parallelism, what lies between them (norms, dropout, residuals) has a part of the tokens on each
// rank. Without tensor parallelism both are the identity. Errors: Error naming the family without a table or
// the module that does not divide (config/validate.h refuses such configs first). Thread rule: one thread per
// model.
#pragma once

#include "athanor/models/model.h"
#include "athanor/parallel/sharding.h"

namespace athanor {

// The collectives at the boundaries of what is cut.
struct Boundaries {
  explicit Boundaries(bool sequence_parallel);
  Boundary into, out_of;
};

// What the families have in common: all but their feed-forward layers and positions.
Sharding transformer_sharding(const ModelConfig& config, bool sequence_parallel);
Sharding llama_sharding(const ModelConfig& config, bool sequence_parallel);
Sharding gpt2_sharding(const ModelConfig& config, bool sequence_parallel);
Sharding moe_sharding(const ModelConfig& config, bool sequence_parallel);

Sharding sharding_of(const ModelConfig& config, bool sequence_parallel);  // by family

// `group` outlives the model.
void shard_model(Model& model, const Sharding& sharding, Group& group);

}  // namespace athanor
