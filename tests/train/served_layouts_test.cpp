// Parameter servers of a model that several ranks share (tp, pp) or whose sequences they share (cp): synchronous ones are
// data parallelism of ZeRO 1 in the same layout, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/train/memory_plan.h"
#include "train/saved_run.h"

namespace athanor {
namespace {

using Axes = std::function<void(ParallelConfig&)>;

Config served_layout(const std::string& family, int dp, const Axes& axes) {
  Config config = uneven(family, "adamw");
  config.train.steps = 4;
  config.schedule.decay = "constant";  // runs may end early
  config.parallel.dp = dp;
  axes(config.parallel);
  return config;
}

Config with_servers(Config config, int64_t of_part) {
  config.parallel.servers = of_part * config.parallel.tp * config.parallel.pp;
  return config;
}

Config with_zero_one(Config config) {
  config.parallel.servers = 0;
  config.parallel.zero = 1;
  return config;
}

void expect_same_run(const VerifyRun& got, const VerifyRun& expected, const std::string& what) {
  EXPECT_EQ(got.losses, expected.losses) << what;
  ASSERT_EQ(got.grad_norms.size(), expected.grad_norms.size()) << what;
  for (size_t i = 0; i < got.grad_norms.size(); ++i)
    if (std::isfinite(expected.grad_norms[i])) {
      EXPECT_EQ(got.grad_norms[i], expected.grad_norms[i]) << what;
    } else {
      EXPECT_FALSE(std::isfinite(got.grad_norms[i])) << what;
    }
  EXPECT_EQ(got.first_weights, expected.first_weights) << what;
  EXPECT_TRUE(got.gradients == expected.gradients || !std::isfinite(expected.grad_norms[0])) << what;
  EXPECT_EQ(got.weights, expected.weights) << what;
  EXPECT_EQ(got.state, expected.state) << what;
  EXPECT_FALSE(got.gradients.empty()) << what;
}

const std::vector<std::pair<std::string, Axes>> kServedAxes = {
    {"dp", [](ParallelConfig&) {}},
    {"tp", [](ParallelConfig& p) { p.tp = 2; }},
    {"tp sp", [](ParallelConfig& p) { p.tp = 2, p.sp = true; }},
    {"cp ring", [](ParallelConfig& p) { p.cp = 2; }},
    {"cp ulysses", [](ParallelConfig& p) { p.cp = 2, p.cp_kind = "ulysses"; }},
    {"pp", [](ParallelConfig& p) { p.pp = 2; }},
    {"pp zb-h1", [](ParallelConfig& p) { p.pp = 2, p.schedule = "zb-h1"; }},
    {"pp tp sp recompute",
     [](ParallelConfig& p) { p.pp = p.tp = 2, p.sp = true, p.recompute = "selective"; }},
    {"tp cp", [](ParallelConfig& p) { p.tp = p.cp = 2; }},
};

TEST(ServedLayouts, AreDataParallelismToTheBit) {
  for (const auto& [what, axes] : kServedAxes)
    for (const char* family : {"llama", "gpt2"})  // tied embeddings
      for (const char* reduce : {"fast", "tree"}) {
        Config config = served_layout(family, 2, axes);
        config.parallel.reduce = reduce;
        const int64_t servers = (family == std::string("gpt2")) == (reduce == std::string("fast")) ? 2 : 1;
        expect_same_run(run_layout(with_servers(config, servers)), run_layout(with_zero_one(config)),
                        fmt::format("{} {} {} {}", what, family, reduce, servers));
      }
}

// Experts, whose balancing bias is the workers': by the load of all of them.
TEST(ServedLayouts, OfExpertsAreDataParallelism) {
  for (const char* family : {"moe", "moe_bias"})
    for (const Axes& axes : {Axes([](ParallelConfig&) {}), Axes([](ParallelConfig& p) { p.pp = 2; }),
                             Axes([](ParallelConfig& p) { p.cp = 2; })}) {
      const Config config = served_layout(family, 2, axes);
      const VerifyRun got = run_layout(with_servers(config, 2)), expected = run_layout(with_zero_one(config));
      expect_same_run(got, expected, family);
      ASSERT_EQ(got.experts.size(), expected.experts.size()) << family;
      for (size_t i = 0; i < got.experts.size(); ++i)
        EXPECT_EQ(got.experts[i].chosen, expected.experts[i].chosen) << family;
    }
}

// Experts under tp have gradients of other tokens on each of its ranks: summed over a column first, then over columns.
TEST(ServedLayouts, ExpertsWhoseTokensAreSharedOutAreNear) {
  for (const char* family : {"moe", "moe_bias"})
    for (const bool sp : {false, true}) {
      const Config config = served_layout(family, 2, [sp](ParallelConfig& p) { p.tp = 2, p.sp = sp; });
      const VerifyRun one = run_layout(one_process(config));
      const LayoutDifference difference = compare(run_layout(with_servers(config, 2)), one);
      EXPECT_LE(difference.worst(), kTolerance) << family << sp;
      EXPECT_EQ(difference.routing_flips, 0) << family << sp;
    }
}

TEST(ServedLayouts, InF16AndAsCodesAreDataParallelism) {
  for (const char* kind : {"none", "int8", "topk"})
    for (const char* compute : {"f32", "f16"})
      for (const Axes& axes :
           {Axes([](ParallelConfig& p) { p.tp = 2, p.sp = true; }), Axes([](ParallelConfig& p) { p.pp = 2; }),
            Axes([](ParallelConfig& p) { p.cp = 2; })}) {
        Config config = served_layout("llama", 2, axes);
        config.parallel.compression = kind;
        config.parallel.compression_ratio = 0.2;
        config.precision.compute = compute;
        config.precision.loss_scale = 16777216.0;  // the first steps overflow
        config.train.steps = 14;
        const VerifyRun expected = run_layout(with_zero_one(config));
        const bool half = std::string(compute) == "f16";
        EXPECT_EQ(std::isfinite(expected.grad_norms.front()), !half);
        EXPECT_TRUE(std::isfinite(expected.grad_norms.back()));
        expect_same_run(run_layout(with_servers(config, 2)), expected, fmt::format("{} {}", kind, compute));
      }
}

// A checkpoint of servers goes on without them, and back: it is one of the logical model.
TEST(ServedLayouts, CheckpointsAreThoseOfTheLogicalModel) {
  const Config config = served_layout("moe_bias", 2, [](ParallelConfig& p) { p.pp = 2; });
  const VerifyRun whole = run_layout(with_zero_one(config));
  for (const bool served_first : {true, false}) {
    const Config first = served_first ? with_servers(config, 2) : with_zero_one(config);
    const Config second = served_first ? with_zero_one(config) : with_servers(config, 1);
    const VerifyRun rest = resume(second, save_after(first, 2, "served_layouts"));
    EXPECT_EQ(rest.weights, whole.weights) << served_first;
    EXPECT_EQ(rest.state, whole.state) << served_first;
    EXPECT_EQ(rest.losses.back(), whole.losses.back()) << served_first;
  }
}

TEST(ServedLayouts, ThePlanIsTheMeasuredPeak) {
  for (const auto& [what, axes] : kServedAxes) {
    Config config = with_servers(served_layout("llama", 2, axes), 1);
    config.precision.compute = "bf16";
    run_layout(config, {.end = [&, axes_are = what](Training& training, TrainState&, World& world) {
                 const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                 const uint64_t measured = training.arena.usage().peak_total;
                 // Hidden states between stages leave when the neighbour takes them.
                 const int64_t boundary =
                     config.parallel.pp == 1
                         ? 0
                         : config.train.micro_batch * config.data.seq_len * config.model.width * 2;
                 EXPECT_GE(measured, plan.usage.peak_total) << axes_are << " rank " << world.rank();
                 EXPECT_LE(measured, plan.usage.peak_total + static_cast<uint64_t>(4 * boundary))
                     << axes_are << " rank " << world.rank();
               }});
  }
}

}  // namespace
}  // namespace athanor
