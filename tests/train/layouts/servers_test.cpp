// Synchronous parameter servers: data parallelism of ZeRO 1 in the same layout, to the bit.
#include <fmt/format.h>

#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::servers_test {
namespace {

constexpr LayoutCheck kAsDrawn{.first_weights = true};

void add_served(LayoutTable& table, const std::string& label, const Config& config, Axes axes,
                int64_t servers, const LayoutCheck& check = kAsDrawn) {
  axes.zero = 1;
  const Config reference = in_axes(config, axes);
  axes.zero = 0;
  axes.servers = servers;
  table.beside(label, in_axes(config, axes), reference, check, text_of(axes));
}

std::vector<LayoutCase> served() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"})  // tied embeddings
    for (const char* reduce : {"fast", "tree"}) {
      Config config = uneven(family, "adamw");
      config.train.steps = 4;
      config.parallel.reduce = reduce;
      const int64_t servers = (family == std::string("gpt2")) == (reduce == std::string("fast")) ? 2 : 1;
      for (const Axes& axes : {Axes{.dp = 2},
                               {.dp = 2, .recompute = "selective"},
                               {.dp = 2, .cp = 2, .cp_method = "ring"},
                               {.dp = 2, .cp = 2, .cp_method = "ulysses"}})
        add_served(table, fmt::format("{} {}", family, reduce), config, axes, servers);
    }
  // The balancing bias is the workers': by the load of all of them.
  for (const char* family : {"moe", "moe_bias"})
    for (const int cp : {1, 2}) {
      Config config = uneven(family, "adamw");
      config.train.steps = 4;
      config.parallel.reduce = family == std::string("moe") ? "tree" : "fast";
      add_served(table, family, config, {.dp = 2, .cp = cp}, 3 - cp,
                 {.first_weights = true, .expert_counts = true});
    }
  for (const char* family : {"llama", "gpt2"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const char* reduce : {"fast", "tree"})
        for (const auto& [workers, servers] : {std::pair(1, 1), {2, 1}, {3, 2}, {2, 3}}) {
          Config config = tiny(family);
          config.optimizer.name = optimizer;
          config.parallel.reduce = reduce;
          add_served(table, fmt::format("{} {} {}", family, optimizer, reduce), config, {.dp = workers},
                     servers);
        }
  Config config = tiny("gpt2");
  config.precision.compute = "bf16";
  config.model.dropout = 0.1;
  config.parallel.reduce = "tree";
  table.as_one("bf16 dropout", config, {.dp = 3, .servers = 2}, kAsDrawn);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Served, LayoutTest, testing::ValuesIn(served()), layout_case_name);

// Blocks are compressed by who pushes and summed by who updates; the sum is not compressed.
std::vector<LayoutCase> served_compressed() {
  LayoutTable table;
  const LayoutCheck compresses{.compresses = true};
  for (const char* kind : {"bf16", "int8"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const auto& [workers, servers] : {std::pair(2, 1), {3, 2}, {2, 3}})
        add_served(table, fmt::format("{} {}", kind, optimizer),
                   several_blocks(compressed(kind, servers == 2 ? "gpt2" : "llama", optimizer)),
                   {.dp = workers}, servers, compresses);
  Config warm = several_blocks(compressed("int8"));
  warm.compression.warmup_steps = 2;
  add_served(table, "two plain steps", warm, {.dp = 2}, 2, compresses);
  warm.compression.warmup_steps = warm.train.steps;
  Config plain = in_axes(warm, {.dp = 2});
  plain.compression.method = "none";
  table.beside("plain steps alone", in_axes(warm, {.dp = 2, .servers = 2}), plain, {.more_state = true},
               "dp2 servers2");
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ServedCompressed, LayoutTest, testing::ValuesIn(served_compressed()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::servers_test
