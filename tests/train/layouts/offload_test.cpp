// Offload in whole layouts: with everything on disk that can be there, a layout has the bits that it has in memory,
// whatever is summed over which ranks. Each layout goes with one model, optimizer and order of sums, all of them with
// every axis; the first six are seen by sanitizers, too.
#include <fmt/format.h>

#include "support/temporary_folder.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::offload_test {
namespace {

Config spilled(Config config) {
  OffloadConfig& o = config.offload;
  o.optimizer = o.gradients = o.activations = "disk";
  if (config.parallel.zero_stage == 3) o.parameters = "disk";
  return config;
}

struct OffloadRow {
  const char *family, *optimizer, *reduce;
  Axes axes;
};

const std::vector<OffloadRow> kShort = {
    {"llama", "adamw", "fast", {.dp = 2}},
    {"gpt2", "sgd", "tree", {.dp = 3, .zero = 1}},
    {"gpt2", "adamw", "fast", {.dp = 2, .pp = 2, .zero = 1, .schedule = "zb-h1"}},
    {"llama", "sgd", "fast", {.tp = 2, .zero = 3}},
    {"gpt2", "adamw", "tree", {.dp = 2, .cp = 2, .zero = 2}},
    {"moe_bias", "adamw", "tree", {.dp = 2, .ep = 2, .zero = 3}},
};

const std::vector<OffloadRow> kLong = {
    {"llama", "adamw", "tree", {.dp = 2, .tp = 2, .zero = 2, .sp = true}},
    {"gpt2", "adamw", "fast", {.dp = 2, .tp = 2, .zero = 3}},
    {"moe_bias", "adamw", "tree", {.dp = 4, .zero = 3, .shard = 2}},
    {"gpt2", "sgd", "tree", {.dp = 4, .zero = 2, .shard = 2}},
    {"moe_bias", "adamw", "fast", {.dp = 4, .ep = 2, .zero = 3, .shard = 2}},
    {"moe_bias", "sgd", "tree", {.dp = 8, .ep = 2, .zero = 3, .shard = 4}},
    {"moe_bias", "adamw", "fast", {.dp = 4, .ep = 2, .zero = 2, .shard = 2}},
    {"moe_bias", "sgd", "fast", {.pp = 2}},
    {"gpt2", "adamw", "tree", {.dp = 2, .pp = 2, .zero = 3, .recompute = "full"}},
    {"llama", "adamw", "fast", {.dp = 2, .pp = 2, .zero = 2, .schedule = "interleaved"}},
    {"gpt2", "sgd", "tree", {.pp = 4, .schedule = "gpipe", .recompute = "selective"}},
    {"llama", "sgd", "fast", {.tp = 2, .pp = 2, .zero = 3, .sp = true, .schedule = "zb-v"}},
    {"llama", "adamw", "fast", {.dp = 3, .cp = 2}},
    {"gpt2", "adamw", "fast", {.dp = 2, .cp = 2, .zero = 1}},
    {"moe_bias", "adamw", "tree", {.dp = 3, .cp = 2, .zero = 3}},
    {"llama", "sgd", "tree", {.pp = 2, .cp = 2}},
    {"gpt2", "sgd", "fast", {.tp = 2, .cp = 2, .zero = 1}},
    {"llama", "adamw", "tree", {.dp = 4, .cp = 2, .zero = 2, .shard = 2}},
    {"moe_bias", "sgd", "fast", {.dp = 2, .tp = 2, .ep = 2, .zero = 2}},
    {"moe_bias", "adamw", "tree", {.dp = 3, .tp = 2, .zero = 3}},
    {"moe_bias", "adamw", "fast", {.tp = 2}},
    {"moe_bias", "adamw", "fast", {.dp = 2, .pp = 2, .ep = 2}},
    {"moe_bias", "sgd", "tree", {.dp = 2, .cp = 2, .ep = 2, .zero = 2}},
};

void add_offloaded(LayoutTable& table, const std::vector<OffloadRow>& rows) {
  for (const OffloadRow& row : rows) {
    Config config = tiny(row.family);
    config.model.num_hidden_layers = 4;
    if (config.model.num_experts > 0) config.model.num_experts = 4;
    config.model.dropout = 0.1;
    config.precision.compute = row.axes.tp > 1 ? "f32" : "bf16";
    config.optimizer.name = row.optimizer;
    config.train.global_batch_size = 16;  // eight micro-batches
    config.train.steps = 2;               // the second reads what the first wrote
    config.train.runs = temporary_path("offload_layouts");
    config.parallel.reduce = row.reduce;
    config = in_axes(config, row.axes);
    table.beside(fmt::format("{} {} {}", row.family, row.optimizer, row.reduce), spilled(config), config, {},
                 text_of(row.axes));
  }
}

std::vector<LayoutCase> offloaded() {
  LayoutTable table;
  add_offloaded(table, kShort);
  table.leave_out("a longer sample of layouts");
  add_offloaded(table, kLong);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Offloaded, LayoutTest, testing::ValuesIn(offloaded()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::offload_test
