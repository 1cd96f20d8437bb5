// Samples of all layouts beside one process, and what else holds of any layout: checkpoints, plans. The layouts that are
// tried one by one are rows of train/layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/engine/memory_plan.h"
#include "athanor/layout/enumerate.h"
#include "checkpoint/content.h"
#include "support/tiers.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::layouts_test {
namespace {

Config deep_config(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.num_hidden_layers = 5;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.parallel.reduce = "tree";
  return config;
}

// A part of a sample, so that each case is short.
struct SpanningSample {
  const char *family, *optimizer;
  int most_ranks;
  size_t part, parts;
};

class SpanningTest : public ::testing::TestWithParam<SpanningSample> {};

// Sizes, schedules, kinds of attention, sp, stages of ZeRO and recompute as `athanor verify --all-layouts --sample` takes
// them: every pair of values that is legal at all.
TEST_P(SpanningTest, ComputesWhatOneProcessComputes) {
  LEAVE_OUT_UNDER(any_sanitizer, "samples of layouts take minutes");
  const SpanningSample& sample = GetParam();
  Config config = deep_config(sample.family, sample.optimizer);
  config.model.num_hidden_layers = 4;
  config.model.num_attention_heads = config.model.num_key_value_heads = 8;
  config.model.head_dim = 4;
  config.model.intermediate_size = 64;
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  config.precision.compute = "f32";
  config.train.global_batch_size = 16;  // eight micro-batches
  config.train.steps = 3;
  if (config.optimizer.name == "adamw") config.optimizer.lr = 3e-4;
  const VerifyRun& one = run_once(one_process(config));
  const Enumeration walk = enumerate(config, sample.most_ranks);
  const std::vector<size_t> spanning = spanning_sample(walk.legal, 1, 1);
  for (size_t i = sample.part; i < spanning.size(); i += sample.parts) {
    const Layout& layout = walk.legal[spanning[i]];
    const LayoutDifference found = compare(run_layout(in_layout(config, layout)), one);
    EXPECT_LT(found.worst(), 1e-5) << layout.text() << ": " << found.gradient.where << ", "
                                   << found.weight.where;
    EXPECT_EQ(found.routing_flips, 0) << layout.text();
    EXPECT_TRUE(found.bitwise || !layout.keeps_order()) << layout.text();
  }
}

std::vector<SpanningSample> samples() {
  std::vector<SpanningSample> all;
  for (size_t part = 0; part < 6; ++part) all.push_back({"llama", "adamw", 8, part, 6});
  for (size_t part = 0; part < 2; ++part) {
    all.push_back({"llama", "sgd", 4, part, 2});
    all.push_back({"gpt2", "adamw", 4, part, 2});
    all.push_back({"gpt2", "sgd", 4, part, 2});
    all.push_back({"moe_bias", "adamw", 4, part, 2});
    all.push_back({"moe_bias", "sgd", 4, part, 2});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, SpanningTest, ::testing::ValuesIn(samples()), [](const auto& each) {
  const SpanningSample& s = each.param;
  return fmt::format("{}_{}_{}_ranks_{}", s.family, s.optimizer, s.most_ranks, s.part);
});

TEST(PipelineFaults, AForgottenSumOfTiedUsesShows) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Config config = in_axes(deep_config("gpt2", optimizer), {.pp = 2});
    const VerifyRun one = run_layout(one_process(config));
    EXPECT_TRUE(is_caught(config, one,
                          {.groups = [](Groups& groups) { groups.pipeline_ends = groups.tensor; }}, 1e-4));
  }
}

// Law 4: what any layout writes any other reads, to the same bytes, optimizer state included. Each reads what the one
// before has written, so the first goes to each of the others and back.
TEST(Checkpoints, KnowNoLayout) {
  const TestFolder folder;
  for (const char* family : {"gpt2", "moe_bias"}) {
    Config config = deep_config(family, "adamw");
    const bool moe = config.model.model_type == "moe";
    config.train.steps = 2;
    config.train.global_batch_size = 8;
    if (moe) config.model.num_experts = 8;
    const Axes pipeline{.tp = 2, .pp = 2, .ep = moe ? 2 : 1, .sp = true};
    const std::vector<Axes> layouts = {
        pipeline, {.dp = 4, .ep = moe ? 4 : 1, .zero = 3},
        pipeline, {},
        pipeline, {.dp = 2, .pp = 2, .ep = moe ? 2 : 1, .zero = 3, .schedule = "zb-v"},
        pipeline};
    std::string last;
    std::vector<std::string> digests;
    for (const Axes& layout : layouts) {
      const std::string target = folder.file(fmt::format("{} {}", family, digests.size()));
      const auto load = [&](Training& training, TrainState& state, World&) {
        if (last.empty()) return;
        const Checkpoint checkpoint = Checkpoint::open(system_env(), last);
        training.load(checkpoint);
        state = TrainState::from_json(checkpoint.state());
      };
      const auto save = [&](Training& training, TrainState& state, World& world) {
        write_checkpoint(
            system_env(), world.all(), target,
            {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
      };
      run_layout(in_axes(config, layout), {.begin = load, .end = save});
      const std::string path = target + "/step_00000002";
      digests.push_back(Checkpoint::open(system_env(), path).digest());
      EXPECT_EQ(digests.back(), digests[0]) << family << " " << text_of(layout);
      last = path;
    }
  }
}

// Law 7. What is sent stays until it has arrived, which the null device does not wait for.
TEST(PipelinePlans, AreTheMeasuredPeakButForBoundaries) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-v"})
    for (const int64_t zero : {0, 3}) {
      Config config =
          in_axes(deep_config("llama", "adamw"), {.dp = 2, .pp = 2, .zero = zero, .schedule = schedule});
      config.train.global_batch_size = 16;
      config.train.steps = 2;
      run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                   const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                   const uint64_t measured = training.arena.usage().peak_total;
                   const int64_t boundary =
                       config.train.micro_batch_size * config.data.seq_len * config.model.hidden_size * 2 +
                       64;
                   EXPECT_GE(measured, plan.usage.peak_total) << schedule << " zero " << zero;
                   EXPECT_LE(measured, plan.usage.peak_total + static_cast<uint64_t>(4 * boundary))
                       << schedule << " zero " << zero << " rank " << world.rank();
                 }});
    }
}

}  // namespace
}  // namespace athanor::tests::layouts_test
