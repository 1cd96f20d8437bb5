#include "athanor/models/sharding.h"
#include "athanor/parallel/collective_ops.h"

namespace athanor {

// Over axis tp, layers of experts are computed alike on every rank, from whole tokens: capacity, drops and balancing
// losses are those of the whole pass (law 1). Axis ep is what splits experts (parallel/expert_parallel.h).
Sharding moe_sharding(const ModelConfig& config, bool sequence_parallel) {
  Sharding table = config.dense_layers > 0 ? llama_sharding(config, sequence_parallel)
                                           : transformer_sharding(config, sequence_parallel);
  table.push_back({.module = "blocks.*.moe",
                   .input = sequence_parallel ? gather_to_whole : nullptr,
                   .output = sequence_parallel ? scatter_to : nullptr});
  return table;
}

}  // namespace athanor
