// Law 1 for whole layouts, as `train` runs them: pipelines of every schedule with data, tensor and sequence
// parallelism, ZeRO and recompute, beside one process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/train/layout_walk.h"
#include "athanor/train/memory_plan.h"
#include "checkpoint/content.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

Config deep_config(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.num_hidden_layers = 5;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.parallel.reduce = "tree";
  return config;
}

struct ScheduledLayout {
  const char* schedule = "1f1b";
  int64_t pp = 1, dp = 1, tp = 1, zero = 0;
  bool sp = false;
  const char* recompute = "none";
  int64_t ep = 1;
};

Config in_scheduled(Config config, const ScheduledLayout& layout) {
  ParallelConfig& p = config.parallel;
  p.schedule = layout.schedule;
  p.pp = layout.pp;
  p.dp = layout.dp;
  p.tp = layout.tp;
  p.zero_stage = layout.zero;
  p.sp = layout.sp;
  p.recompute = layout.recompute;
  p.ep = layout.ep;
  return config;
}

std::string describe(const ScheduledLayout& l) {
  return fmt::format("{} pp {} dp {} tp {} ep {} zero {} {} {}", l.schedule, l.pp, l.dp, l.tp, l.ep, l.zero,
                     l.sp ? "sp" : "", l.recompute);
}

const std::pair<const char*, const char*> kLayouts[] = {
    {"llama", "adamw"}, {"gpt2", "sgd"}, {"gpt2", "adamw"}, {"moe_bias", "adamw"}, {"moe_bias", "sgd"}};

class LayoutsTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  Config config_ = deep_config(GetParam().first, GetParam().second);
};

// Five grains are not alike for two and three ranks, nor five layers for the stages.
TEST_P(LayoutsTest, UnevenPipelinesKeepTheBitsOfOneProcess) {
  const VerifyRun one = run_layout(one_process(config_));
  for (const ScheduledLayout& layout :
       {ScheduledLayout{"gpipe", 3, 2}, ScheduledLayout{"interleaved", 2, 2, 1, 1},
        ScheduledLayout{"zb-h1", 2, 3, 1, 1}, ScheduledLayout{"zb-v", 2, 2, 1, 0, false, "full"},
        ScheduledLayout{"zb-h1", 4, 2}}) {
    const LayoutDifference found = compare(run_layout(in_scheduled(config_, layout)), one);
    EXPECT_TRUE(found.bitwise) << describe(layout) << ": " << found.worst();
  }
}

// reduce = "fast" adds up each rank's grains first: pp changes nothing of what dp alone computes.
TEST_P(LayoutsTest, FastSumsAreThoseOfDataParallelism) {
  config_.parallel.reduce = "fast";
  config_.train.global_batch_size = 8;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const VerifyRun flat = run_layout(in_scheduled(config_, {"1f1b", 1, 2, 1, zero}));
    for (const char* schedule : {"1f1b", "zb-v"}) {
      const ScheduledLayout layout{schedule, 2, 2, 1, zero};
      EXPECT_TRUE(compare(run_layout(in_scheduled(config_, layout)), flat).bitwise) << describe(layout);
    }
  }
}

TEST_P(LayoutsTest, PipelinesOfTensorParallelRanks) {
  config_.train.global_batch_size = 8;
  config_.precision.compute = "f32";
  if (config_.optimizer.name == "adamw") config_.optimizer.lr = 3e-4;  // full steps of what is nearly zero
  for (const bool sp : {false, true}) {
    const VerifyRun flat = run_layout(in_scheduled(config_, {"1f1b", 1, 1, 2, 0, sp}));
    for (const ScheduledLayout& layout :
         {ScheduledLayout{"1f1b", 2, 1, 2, 0, sp}, ScheduledLayout{"zb-v", 2, 2, 2, 0, sp, "selective"},
          ScheduledLayout{"gpipe", 2, 2, 2, 3, sp}})
      EXPECT_TRUE(compare(run_layout(in_scheduled(config_, layout)), flat).bitwise) << describe(layout);
    const LayoutDifference rounding = compare(flat, run_layout(one_process(config_)));
    EXPECT_LT(rounding.worst(), 1e-5) << rounding.gradient.where << ", " << rounding.weight.where;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutsTest, ::testing::ValuesIn(kLayouts), [](const auto& each) {
  return fmt::format("{}_{}", each.param.first, each.param.second);
});

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
  const SpanningSample& sample = GetParam();
  Config config = deep_config(sample.family, sample.optimizer);
  config.model.num_hidden_layers = 4;
  config.model.num_attention_heads = config.model.num_key_value_heads = 8;
  config.model.head_dim = 4;
  config.model.intermediate_size = 64;
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  config.precision.compute = "f32";
  config.train.global_batch_size = 16;  // eight grains
  config.train.steps = 3;
  if (config.optimizer.name == "adamw") config.optimizer.lr = 3e-4;
  const VerifyRun one = run_layout(one_process(config));
  const LayoutWalk walk = walk_layouts(config, sample.most_ranks);
  const std::vector<size_t> spanning = spanning_sample(walk.legal, 1, 1);
  for (size_t i = sample.part; i < spanning.size(); i += sample.parts) {
    const ParallelConfig& layout = walk.legal[spanning[i]];
    const LayoutDifference found = compare(run_layout(in_layout(config, layout)), one);
    EXPECT_LT(found.worst(), 1e-5) << text_of(layout) << ": " << found.gradient.where << ", "
                                   << found.weight.where;
    EXPECT_EQ(found.routing_flips, 0) << text_of(layout);
    EXPECT_TRUE(found.bitwise || !keeps_order(layout)) << text_of(layout);
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

// Balanced by an auxiliary loss, and with a pipeline of uneven stages.
TEST(ExpertLayouts, ComputeWhatOneProcessComputes) {
  Config config = deep_config("moe", "sgd");
  config.model.num_hidden_layers = 3;
  config.model.num_experts = 8;
  config.precision.compute = "f32";
  config.train.global_batch_size = 8;
  const VerifyRun one = run_layout(one_process(config));
  for (const ScheduledLayout& layout : {ScheduledLayout{"1f1b", 1, 4, 1, 2, false, "full", 2},
                                        ScheduledLayout{"1f1b", 1, 2, 2, 3, true, "none", 4},
                                        ScheduledLayout{"zb-h1", 2, 2, 1, 3, false, "full", 2}}) {
    const LayoutDifference found = compare(run_layout(in_scheduled(config, layout)), one);
    EXPECT_LT(found.worst(), 1e-5) << describe(layout) << ": " << found.gradient.where << " "
                                   << found.weight.where;
  }
}

TEST(PipelineFaults, AForgottenSumOfTiedUsesShows) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Config config = in_scheduled(deep_config("gpt2", optimizer), {"1f1b", 2});
    const VerifyRun one = run_layout(one_process(config));
    EXPECT_TRUE(is_caught(
        config, one,
        {.lay_out = [](Training& training,
                       Mesh& mesh) { training.cut(mesh.group(Axis::pp), nullptr, mesh.group(Axis::pp)); }},
        1e-4));
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
    const ScheduledLayout pipeline{"1f1b", 2, 1, 2, 0, true, "none", moe ? 2 : 1};
    const std::vector<ScheduledLayout> layouts = {
        pipeline, {"1f1b", 1, 4, 1, 3, false, "none", moe ? 4 : 1}, pipeline, {"1f1b", 1, 1},
        pipeline, {"zb-v", 2, 2, 1, 3, false, "none", moe ? 2 : 1}, pipeline};
    std::string last;
    std::vector<std::string> digests;
    for (const ScheduledLayout& layout : layouts) {
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
      run_layout(in_scheduled(config, layout), {.begin = load, .end = save});
      const std::string path = target + "/step_00000002";
      digests.push_back(Checkpoint::open(system_env(), path).digest());
      EXPECT_EQ(digests.back(), digests[0]) << family << " " << describe(layout);
      last = path;
    }
  }
}

// Law 7. What is sent stays until it has arrived, which the null device does not wait for.
TEST(PipelinePlans, AreTheMeasuredPeakButForBoundaries) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-v"})
    for (const int64_t zero : {0, 3}) {
      Config config = in_scheduled(deep_config("llama", "adamw"), {schedule, 2, 2, 1, zero});
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
}  // namespace athanor
