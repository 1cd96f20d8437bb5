// Law 7: the plan of a layout is what each of its ranks comes to hold.
#include <fmt/format.h>

#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"

namespace athanor::tests::plans_test {
namespace {

Config in_bf16(Config config) {
  config.precision.compute = "bf16";
  config.train.steps = 2;
  return config;
}

std::vector<LayoutCase> plain_plans() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"}) {
      const Config config = in_bf16(tiny(family));
      for (const char* recompute : {"none", "selective", "full", "group:2", "full*1,selective"})
        for (const int dp : {1, 3})
          table.planned(family, in_axes(config, {.dp = dp, .recompute = recompute, .reduce = reduce}));
      for (const int64_t zero : {1, 2, 3})
        for (const int dp : {2, 3})
          table.planned(
              family,
              in_axes(config,
                      {.dp = dp, .zero = zero, .recompute = zero == 3 ? "full" : "none", .reduce = reduce}));
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Plain, PlanTest, testing::ValuesIn(plain_plans()), layout_case_name);

// With an outer step after every step.
std::vector<LayoutCase> plans_of_replica_groups() {
  LayoutTable table;
  for (const char* compute : {"f32", "bf16"})
    for (const int64_t zero : {0, 3})
      for (Axes axes : {Axes{.dp = 4, .group = 2}, Axes{.dp = 4, .cp = 2, .group = 2},
                        Axes{.dp = 2, .tp = 2, .cp = 2, .group = 1}}) {
        axes.zero = zero;
        Config config = in_axes(local_sgd("llama", "adamw", 1), axes);
        config.precision.compute = compute;
        config.train.steps = 2;
        config.local_sgd.compression = std::string(compute) == "bf16" ? "int8" : "none";
        if (zero == 0 && axes.cp == 2) {
          config.parallel.reduce = "fast";
          config.compression.method = "int8";
        }
        table.planned(compute, config);
      }
  for (const int64_t zero : {1, 3})
    table.planned("shard groups", in_axes(in_bf16(several_blocks(local_sgd("llama", "adamw", 1))),
                                          {.dp = 8, .zero = zero, .shard = 2, .group = 4}));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ReplicaGroups, PlanTest, testing::ValuesIn(plans_of_replica_groups()),
                         layout_case_name);

std::vector<LayoutCase> plans_of_compression() {
  LayoutTable table;
  for (const auto& [kind, zero] : {std::pair("bf16", 1), {"bf16", 3}, {"int8", 1}, {"int8", 2}, {"int8", 3}})
    table.planned(std::string(kind) + " shard groups",
                  in_axes(in_bf16(compressed_blocks(kind, "gpt2")), {.dp = 4, .zero = zero, .shard = 2}));
  for (const char* kind : {"bf16", "int8"})
    for (const int64_t zero : {2, 3})
      table.planned(kind, in_axes(in_bf16(compressed_blocks(kind, "gpt2")), {.dp = 3, .zero = zero}));
  // The first steps are plain Adam's.
  for (const auto& [family, zero] : {std::pair("llama", 0), {"gpt2", 1}, {"moe", 1}}) {
    Config config = in_axes(in_bf16(onebit_blocks(family)), {.dp = 4, .zero = zero});
    config.train.steps = kPlainSteps + 2;
    table.planned(fmt::format("onebit-adam {}", family), config);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Compression, PlanTest, testing::ValuesIn(plans_of_compression()), layout_case_name);

std::vector<LayoutCase> plans_of_experts() {
  LayoutTable table;
  for (Axes axes :
       {Axes{.dp = 4, .ep = 2, .shard = 2}, {.dp = 8, .ep = 2, .shard = 4}, {.dp = 4, .tp = 2, .shard = 2}})
    for (const int64_t zero : {1, 2, 3}) {
      axes.zero = zero;
      Config config = in_bf16(eight_experts(tiny("moe")));
      config.train.global_batch_size = 16;
      table.planned("moe", in_axes(config, axes), {.plan_of_most = true});
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Experts, PlanTest, testing::ValuesIn(plans_of_experts()), layout_case_name);

std::vector<LayoutCase> plans_of_servers() {
  LayoutTable table;
  for (const char* family : {"llama", "moe"})
    for (Axes axes : {Axes{.dp = 2},
                      {.dp = 2, .recompute = "selective"},
                      {.dp = 2, .cp = 2},
                      {.dp = 2, .cp = 2, .cp_method = "ulysses"}}) {
      axes.servers = 1;
      table.planned(family, in_axes(in_bf16(uneven(family, "adamw")), axes),
                    {.plan_of_most = family == std::string("moe")});
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Servers, PlanTest, testing::ValuesIn(plans_of_servers()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::plans_test
