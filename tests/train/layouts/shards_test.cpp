// Hybrid sharding: ZeRO within shard groups and replicas of the shards across them, with experts on several ranks, too.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"
#include "train/wide_training.h"

namespace athanor::tests::shards_test {
namespace {

Config wide_micro_batches(const WideCase& c, int64_t sequences) {
  Config config = wide(c);
  config.train.global_batch_size = sequences;
  return config;
}

std::vector<LayoutCase> shard_groups() {
  LayoutTable table;
  for (const WideCase& each :
       {WideCase{"llama", "f32", 0.0, "adamw", "none"}, WideCase{"gpt2", "bf16", 0.1, "sgd", "full"}}) {
    const Config config = wide_micro_batches(each, 14);  // seven micro-batches: uneven
    Config tree = config;
    tree.parallel.reduce = "tree";
    const double tolerance = std::string(each.compute) == "f32" ? 1e-5 : 5e-2;
    for (const int64_t zero : {1, 2, 3}) {
      for (const auto& [dp, shard] : {std::pair(4, 2), {6, 3}, {6, 2}})
        table.as_one(std::string(each.family) + " tree", tree, {.dp = dp, .zero = zero, .shard = shard});
      table.as_one(std::string(each.family) + " fast", config, {.dp = 4, .zero = zero, .shard = 2},
                   {.twice = true, .losses = tolerance, .norms = tolerance});
    }
  }
  // With what else cuts a model. Eight micro-batches: pipelines with sharded gradients need as many on each rank.
  Config config = wide_micro_batches({"llama", "f32", 0.1, "adamw", "none"}, 16);
  config.optimizer.eps = 1e-4;  // where a gradient is little but rounding
  config.parallel.reduce = "tree";
  for (const int64_t zero : {1, 2, 3})
    for (const auto& [pp, tp] : {std::pair(1, 1), {2, 1}, {1, 2}})
      table.as_one("llama", config, {.dp = 4, .tp = tp, .pp = pp, .zero = zero, .shard = 2},
                   within(tp == 1 ? 0.0 : 1e-5));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ShardGroups, LayoutTest, testing::ValuesIn(shard_groups()), layout_case_name);

Config eight_of_shard_groups(const std::string& style, const std::string& optimizer) {
  Config config = tiny(style);
  config.precision.compute = "f32";
  config.model.num_experts = 8;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.optimizer.name = optimizer;
  if (optimizer == "adamw") config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";
  return config;
}

// A shard group has some ranks with the same experts, which share them out, or one alone.
std::vector<LayoutCase> experts_of_shard_groups() {
  LayoutTable table;
  table.leave_out("a run beside its definition takes minutes");
  for (const char* optimizer : {"adamw", "sgd"})
    for (Axes axes : {Axes{.dp = 4, .ep = 2, .shard = 2},
                      {.dp = 4, .ep = 4, .shard = 2},
                      {.dp = 8, .ep = 2, .shard = 4},
                      {.dp = 4, .tp = 2, .shard = 2},
                      {.dp = 4, .cp = 2, .ep = 2, .shard = 2},
                      {.dp = 4, .tp = 2, .ep = 2, .shard = 2},
                      {.dp = 4, .pp = 2, .ep = 2, .shard = 2}})
      for (const int64_t zero : {1, 2, 3}) {
        axes.zero = zero;
        axes.reduce = zero == 2 ? "tree" : "fast";
        table.as_one(std::string("moe_bias ") + optimizer, eight_of_shard_groups("moe_bias", optimizer), axes,
                     {.tolerance = 1e-5, .no_flips = true, .twice = zero == 3});
      }
  table.leave_out(nullptr);
  // With groups as large as all ranks nothing is left across: the very sums of plain ZeRO.
  const Config config = eight_of_shard_groups("moe", "adamw");
  for (const int64_t zero : {1, 2, 3})
    table.beside("one group is plain ZeRO", in_axes(config, {.dp = 4, .ep = 2, .zero = zero, .shard = 4}),
                 in_axes(config, {.dp = 4, .ep = 2, .zero = zero}), {}, fmt::format("zero{}", zero));
  // Local SGD: the shard groups of a replica group; at an outer step the ranks with the same share of an expert share it.
  for (const auto& [ranks, shard] : {std::pair<int64_t, int64_t>(8, 4), {4, 2}}) {
    Config two = eight_of_shard_groups("moe", "sgd");
    two.train.global_batch_size = 2 * 2 * ranks;  // a micro-batch for each rank
    two.local_sgd.sync_interval = 2;
    for (const int64_t zero : {1, 3}) {
      const Axes axes{.dp = 2 * ranks, .ep = 2, .zero = zero, .shard = shard, .group = ranks};
      const Config many = in_axes(two, axes);
      table.beside("local SGD", many, one_process(many), within(1e-5), text_of(axes));
    }
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ExpertsOfShardGroups, LayoutTest, testing::ValuesIn(experts_of_shard_groups()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::shards_test
