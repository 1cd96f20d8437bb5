// Law 1 for offload in whole layouts: with everything on disk that can be there, a layout has the bits that it has in
// memory, whatever is summed over which ranks. Each layout goes with one model, optimizer and order of sums, all of them
// with every axis; those of Short are seen by sanitizers, too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

struct OffloadedLayout {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, zero = 0, shard_degree = 0;
  bool sp = false;
  const char* schedule = "1f1b";
  const char* recompute = "none";
};

struct OffloadSample {
  const char *family, *optimizer, *reduce;
  OffloadedLayout layout;
};

Config config_of_sample(const OffloadSample& sample) {
  const std::string family = sample.family;
  const OffloadedLayout& layout = sample.layout;
  Config config = tiny(family);
  config.model.num_hidden_layers = 4;
  if (config.model.num_experts > 0) config.model.num_experts = 4;
  config.model.dropout = 0.1;
  config.precision.compute = layout.tp > 1 ? "f32" : "bf16";
  config.optimizer.name = sample.optimizer;
  config.train.global_batch_size = 16;  // eight grains
  config.train.steps = 2;               // the second reads what the first wrote
  config.train.runs = temporary_path("offload_layouts");
  ParallelConfig& p = config.parallel;
  p.reduce = sample.reduce;
  p.dp = layout.dp;
  p.tp = layout.tp;
  p.pp = layout.pp;
  p.cp = layout.cp;
  p.ep = layout.ep;
  p.zero_stage = layout.zero;
  p.shard_degree = layout.shard_degree;
  p.sp = layout.sp;
  p.schedule = layout.schedule;
  p.recompute = layout.recompute;
  return config;
}

Config spilled(Config config) {
  OffloadConfig& o = config.offload;
  o.optimizer = o.gradients = o.activations = "disk";
  if (config.parallel.zero_stage == 3) o.parameters = "disk";
  return config;
}

class OffloadLayouts : public ::testing::TestWithParam<OffloadSample> {};

TEST_P(OffloadLayouts, HaveTheBitsOfMemory) {
  const Config config = config_of_sample(GetParam());
  EXPECT_TRUE(compare(run_layout(spilled(config)), run_layout(config)).bitwise);
}

const std::vector<OffloadSample> kShort = {
    {"llama", "adamw", "fast", {.dp = 2}},
    {"gpt2", "sgd", "tree", {.dp = 3, .zero = 1}},
    {"gpt2", "adamw", "fast", {.dp = 2, .pp = 2, .zero = 1, .schedule = "zb-h1"}},
    {"llama", "sgd", "fast", {.tp = 2, .zero = 3}},
    {"gpt2", "adamw", "tree", {.dp = 2, .cp = 2, .zero = 2}},
    {"moe_bias", "adamw", "tree", {.dp = 2, .ep = 2, .zero = 3}},
};

const std::vector<OffloadSample> kAll = {
    {"llama", "adamw", "tree", {.dp = 2, .tp = 2, .zero = 2, .sp = true}},
    {"gpt2", "adamw", "fast", {.dp = 2, .tp = 2, .zero = 3}},
    {"moe_bias", "adamw", "tree", {.dp = 4, .zero = 3, .shard_degree = 2}},
    {"gpt2", "sgd", "tree", {.dp = 4, .zero = 2, .shard_degree = 2}},
    {"moe_bias", "adamw", "fast", {.dp = 4, .ep = 2, .zero = 3, .shard_degree = 2}},
    {"moe_bias", "sgd", "tree", {.dp = 8, .ep = 2, .zero = 3, .shard_degree = 4}},
    {"moe_bias", "adamw", "fast", {.dp = 4, .ep = 2, .zero = 2, .shard_degree = 2}},
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
    {"llama", "adamw", "tree", {.dp = 4, .cp = 2, .zero = 2, .shard_degree = 2}},
    {"moe_bias", "sgd", "fast", {.dp = 2, .tp = 2, .ep = 2, .zero = 2}},
    {"moe_bias", "adamw", "tree", {.dp = 3, .tp = 2, .zero = 3}},
    {"moe_bias", "adamw", "fast", {.tp = 2}},
    {"moe_bias", "adamw", "fast", {.dp = 2, .pp = 2, .ep = 2}},
    {"moe_bias", "sgd", "tree", {.dp = 2, .cp = 2, .ep = 2, .zero = 2}},
};

std::string name_of(const ::testing::TestParamInfo<OffloadSample>& test) {
  const OffloadedLayout& l = test.param.layout;
  std::string name =
      fmt::format("{}_{}_{}_dp{}_tp{}_pp{}_cp{}_ep{}_zero{}", test.param.family, test.param.optimizer,
                  test.param.reduce, l.dp, l.tp, l.pp, l.cp, l.ep, l.zero);
  if (l.shard_degree > 0) name += fmt::format("of{}", l.shard_degree);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Short, OffloadLayouts, ::testing::ValuesIn(kShort), name_of);
INSTANTIATE_TEST_SUITE_P(All, OffloadLayouts, ::testing::ValuesIn(kAll), name_of);

}  // namespace
}  // namespace athanor
