#include "athanor/models/sharding.h"

namespace athanor::models::llama {

Sharding llama_sharding(const ModelConfig& config, bool sequence_parallel) {
  const auto [into, out_of] = Boundaries(sequence_parallel);
  Sharding table = transformer_sharding(config, sequence_parallel);
  table.push_back({.module = "blocks.*.mlp", .input = into});
  table.push_back({.module = "blocks.*.mlp.gate", .split = Split::column});
  table.push_back({.module = "blocks.*.mlp.up", .split = Split::column});
  table.push_back({.module = "blocks.*.mlp.down", .split = Split::row, .output = out_of});
  return table;
}

}  // namespace athanor::models::llama
