// Tensor parallelism of the models: how each family's weights are partitioned over axis tp (Megatron-LM; Shoeybi et
// al., 2019), one table per family beside its model (models/llama/sharding.cpp).
//
//   auto model = make_model(config);
//   shard_model(*model, sharding_of(config, /*sequence_parallel=*/true), tp_group);
//   model->allocate(arena, Dtype::bf16, /*with_masters=*/true);           // then initialize() or read weights
//
// Attention is partitioned by heads, feed-forward layers by their intermediate size, embedding and head by vocabulary.
// With sequence parallelism each rank has a part of the tokens in between (norms, dropout, residuals). On a group of
// one both are the identity. Errors: Error naming the family without a table or the module that does not divide
// (config/validate.h refuses such configs first). Thread rule: one thread per model.
#pragma once

#include "athanor/models/model.h"
#include "athanor/parallel/tensor/sharding.h"

namespace athanor::models {

// The collectives before and after partitioned modules.
struct Boundaries {
  explicit Boundaries(bool sequence_parallel);
  Boundary into, out_of;
};

// The table that the families share: everything but their feed-forward layers and positions.
Sharding transformer_sharding(const ModelConfig& config, bool sequence_parallel);
namespace llama {
Sharding llama_sharding(const ModelConfig& config, bool sequence_parallel);
}
namespace gpt2 {
Sharding gpt2_sharding(const ModelConfig& config, bool sequence_parallel);
}
namespace bert {
Sharding bert_sharding(const ModelConfig& config, bool sequence_parallel);
}
namespace moe {
Sharding moe_sharding(const ModelConfig& config, bool sequence_parallel);
}

Sharding sharding_of(const ModelConfig& config, bool sequence_parallel);  // the table of config.family

// `group` outlives the model.
void shard_model(Model& model, const Sharding& sharding, Group& group);

}  // namespace athanor::models
