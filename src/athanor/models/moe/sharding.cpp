#include "athanor/models/sharding.h"
#include "athanor/parallel/tensor/collective_ops.h"

namespace athanor::models::moe {

namespace {

Var own_rows_of(const Var& x, Group& group) {
  return drop_padding(scatter_to(x, group), group);
}

Var whole_of(const Var& y, Group& group) {
  return gather_to_whole(add_padding(y, group), group);
}

}  // namespace

// Over axis tp, each rank computes the expert layers for its own rows of a pass; capacity, drops and balancing losses
// are those of the full pass (PartitionedTokens). Axis ep partitions the experts (parallel/expert/expert_parallel.h).
Sharding moe_sharding(const ModelConfig& config, bool sequence_parallel) {
  Sharding table = config.first_k_dense_replace > 0 ? llama_sharding(config, sequence_parallel)
                                                    : transformer_sharding(config, sequence_parallel);
  table.push_back({.module = "blocks.*.moe",
                   .input = sequence_parallel ? drop_padding : own_rows_of,
                   .output = sequence_parallel ? add_padding : whole_of});
  table.push_back({.module = "blocks.*.moe.router", .split = Split::tokens});
  if (config.n_shared_experts > 0)
    table.push_back({.module = "blocks.*.moe.shared.*", .split = Split::tokens});
  return table;
}

}  // namespace athanor::models::moe
