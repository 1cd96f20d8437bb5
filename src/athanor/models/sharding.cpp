#include "athanor/models/sharding.h"

#include "athanor/nn/moe.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "athanor/parallel/tensor/tensor_parallel.h"

namespace athanor::models {

Boundaries::Boundaries(bool sequence_parallel)
    : into(sequence_parallel ? gather_to_partial : copy_to),
      out_of(sequence_parallel ? reduce_scatter : reduce_from) {}

Sharding transformer_sharding(const ModelConfig& config, bool sequence_parallel) {
  const auto [into, out_of] = Boundaries(sequence_parallel);
  Sharding table = {
      {.module = "embed", .split = Split::vocabulary, .output = out_of},
      {.module = "blocks.*.attn", .input = into},
      {.module = "blocks.*.attn.q", .split = Split::column, .unit = config.head_dim},
      {.module = "blocks.*.attn.k", .split = Split::grouped, .unit = config.head_dim},
      {.module = "blocks.*.attn.v", .split = Split::grouped, .unit = config.head_dim},
      {.module = "blocks.*.attn.o", .split = Split::row, .output = out_of},
      {.module = "head",
       .split = Split::vocabulary,
       .input = into},  // a tied head uses the embedding's weight
  };
  if (sequence_parallel)
    for (const char* module : {"embed_dropout", "blocks.*.attn_norm", "blocks.*.attn_dropout",
                               "blocks.*.mlp_norm", "blocks.*.mlp_dropout", "norm"})
      table.push_back({.module = module, .split = Split::tokens});
  return table;
}

Sharding sharding_of(const ModelConfig& config, bool sequence_parallel) {
  if (config.model_type == "llama") return llama_sharding(config, sequence_parallel);
  if (config.model_type == "gpt2") return gpt2_sharding(config, sequence_parallel);
  if (config.model_type == "bert") return bert::bert_sharding(config, sequence_parallel);
  if (config.has_experts()) return moe_sharding(config, sequence_parallel);
  fail("model: model_type '{}' has no sharding table", config.model_type);
}

void shard_model(Model& model, const Sharding& sharding, Group& group) {
  apply_sharding(model, sharding, group);
  if (group.size() == 1) return;
  model.set_combine_statistics([&group](Tensor& statistics) { combine_statistics(statistics, group); });
  for (MoeLayer* layer : model.moe_layers())
    layer->partition_tokens(std::make_unique<PartitionedTokens>(group));
}

}  // namespace athanor::models
