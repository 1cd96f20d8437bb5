#include "athanor/models/sharding.h"

namespace athanor::models::bert {

Sharding bert_sharding(const ModelConfig& config, bool sequence_parallel) {
  const auto [into, out_of] = Boundaries(sequence_parallel);
  Sharding table = transformer_sharding(config, sequence_parallel);
  table.push_back({.module = "positions", .split = Split::first});
  if (config.type_vocab_size > 0) table.push_back({.module = "token_types", .split = Split::first});
  table.push_back({.module = "blocks.*.mlp", .input = into});
  table.push_back({.module = "blocks.*.mlp.up", .split = Split::column});
  table.push_back({.module = "blocks.*.mlp.down", .split = Split::row, .output = out_of});
  if (sequence_parallel)
    for (const char* module : {"embed_norm", "transform"})
      table.push_back({.module = module, .split = Split::tokens});
  return table;
}

}  // namespace athanor::models::bert
