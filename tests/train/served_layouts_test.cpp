// Parameter servers of a model that several ranks share (tp, pp) or whose sequences they share (cp): synchronous ones are
// data parallelism of ZeRO 1 in the same layout, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "athanor/parallel/experts_apart.h"
#include "athanor/train/grain.h"
#include "athanor/train/layout.h"
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
  ParallelConfig& p = config.parallel;
  p.servers = of_part * std::lcm(p.tp, p.ep) * p.pp;
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

// Of layers of experts: as everything else, or summed over other ranks than that (tp, ep), in columns of their own.
const std::vector<std::pair<std::string, Axes>> kExpertAxes = {
    {"dp", [](ParallelConfig&) {}},
    {"pp", [](ParallelConfig& p) { p.pp = 2; }},
    {"cp", [](ParallelConfig& p) { p.cp = 2; }},
    {"tp", [](ParallelConfig& p) { p.tp = 2; }},
    {"tp sp", [](ParallelConfig& p) { p.tp = 2, p.sp = true; }},
    {"ep across dp", [](ParallelConfig& p) { p.ep = 2; }},
    {"ep across dp, pp", [](ParallelConfig& p) { p.ep = p.pp = 2; }},
    {"ep within cp", [](ParallelConfig& p) { p.ep = p.cp = 2; }},
    {"ep within tp", [](ParallelConfig& p) { p.ep = p.tp = 2, p.sp = true; }},
    {"ep across dp and tp", [](ParallelConfig& p) { p.ep = 4, p.tp = 2; }},
};

// Ranks that share experts across dp have as many grains each.
Config expert_layout(const std::string& family, const Axes& axes) {
  Config config = served_layout(family, 2, axes);
  if (config.parallel.ep == 1) return config;
  config.model.experts = 8;
  config.train.global_batch = 4 * config.train.micro_batch;
  return config;
}

// The balancing bias is the workers': by the load of all of them.
TEST(ServedLayouts, OfExpertsAreDataParallelism) {
  for (const char* family : {"moe", "moe_bias"})
    for (const auto& [what, axes] : kExpertAxes) {
      Config config = expert_layout(family, axes);
      config.parallel.reduce = family == std::string("moe") ? "tree" : "fast";
      const VerifyRun got = run_layout(with_servers(config, what == "dp" ? 2 : 1)),
                      expected = run_layout(with_zero_one(config));
      expect_same_run(got, expected, fmt::format("{} {}", family, what));
      ASSERT_EQ(got.experts.size(), expected.experts.size()) << family << what;
      for (size_t i = 0; i < got.experts.size(); ++i)
        EXPECT_EQ(got.experts[i].chosen, expected.experts[i].chosen) << family << what;
    }
}

TEST(ServedLayouts, OfExpertsInF16AndAsCodesAreDataParallelism) {
  for (const char* kind : {"none", "bf16"})
    for (const int dp : {2, 4}) {  // of experts two ranks have the same
      Config config = expert_layout("moe", [dp](ParallelConfig& p) { p.ep = 2, p.dp = dp, p.tp = 4 / dp; });
      config.parallel.compression = kind;
      config.parallel.reduce = "fast";
      config.precision.compute = "f16";
      config.precision.loss_scale = 16777216.0;  // the first steps overflow
      config.train.steps = 14;
      const VerifyRun expected = run_layout(with_zero_one(config));
      EXPECT_FALSE(std::isfinite(expected.grad_norms.front()));
      EXPECT_TRUE(std::isfinite(expected.grad_norms.back()));
      expect_same_run(run_layout(with_servers(config, 2)), expected, fmt::format("{} {}", kind, dp));
    }
}

TEST(ServedLayouts, InF16AndAsCodesAreDataParallelism) {
  for (const char* kind : {"none", "int8"})
    for (const char* compute : {"f32", "f16"})
      for (const Axes& axes :
           {Axes([](ParallelConfig& p) { p.tp = 2, p.sp = true; }), Axes([](ParallelConfig& p) { p.pp = 2; }),
            Axes([](ParallelConfig& p) { p.cp = 2; })}) {
        Config config = served_layout("llama", 2, axes);
        config.parallel.compression = kind;
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
  for (const Axes& axes :
       {Axes([](ParallelConfig& p) { p.pp = 2; }), Axes([](ParallelConfig& p) { p.ep = 2; })}) {
    const Config config = expert_layout("moe_bias", axes);
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
}

// Of a column of W workers and S servers that has these weights: what a rank of it sends of gradients or parameters.
int64_t column_bytes(const std::vector<Weight*>& weights, int64_t W, int64_t S, bool serves,
                     const Config& config) {
  const Buckets buckets(weights, {.rows = static_cast<int>(S),
                                  .bucket_bytes = config.parallel.bucket_bytes,
                                  .by_unit = false,
                                  .uses_apart = true,
                                  .section = {}});
  int64_t all = 0, with_values = 0, steps = config.train.steps;
  for (size_t b = 0; b < buckets.list.size(); ++b) {
    const int64_t total = buckets.list[b].layout.total();
    all += total;
    if (!buckets.params(b).empty()) with_values += total;
  }
  return serves ? (steps + 1) * W * 4 * with_values / S : steps * 4 * all;
}

// docs/parallelism.md; of both columns of a rank where experts have their own.
TEST(ServedLayouts, BytesAreThoseOfTheFormulas) {
  for (const auto& [what, axes] : kExpertAxes) {
    Config config = with_servers(expert_layout("moe", axes), 2);
    config.parallel.reduce = "fast";
    const ParallelConfig& p = config.parallel;
    const auto check_bytes = [&, axes_are = what](Training& training, TrainState&, World& world) {
      const bool serves = training.server != nullptr;
      const int64_t steps = config.train.steps, W = p.dp * p.cp, S = p.servers / p.pp / p.tp,
                    losses = 8 * static_cast<int64_t>(GrainLosses::count(grains_of_step(config.train), 2)),
                    place = world.rank() - W * p.pp * p.tp;  // among the servers
      const bool is_first = serves && place / p.tp % S == 0;
      const std::vector<Weight*> weights = training.model->weights();
      int64_t bytes = serves ? (steps + 1) * W * (64 + (is_first ? losses : 0)) : steps * (64 * S + losses);
      if (p.ep == 1 && p.tp == 1) {
        bytes += column_bytes(weights, W, S, serves, config);
      } else {
        bytes += column_bytes(weights_apart(weights, false), W, S, serves, config);
        bytes += column_bytes(weights_apart(weights, true), W * p.tp / p.ep, p.servers / p.pp / p.ep, serves,
                              config);
      }
      const Traffic traffic = serves ? training.server->traffic() : training.client->traffic();
      EXPECT_EQ(traffic.of(Collective::send).bytes, bytes) << axes_are << " rank " << world.rank();
      EXPECT_EQ(traffic.total().bytes, bytes) << axes_are << " rank " << world.rank();
    };
    run_layout(config, {.end = check_bytes});
  }
}

void expect_planned(Config config, const std::string& what) {
  config.precision.compute = "bf16";
  run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
               const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
               const uint64_t measured = training.arena.usage().peak_total;
               // Hidden states between stages leave when the neighbour takes them.
               const int64_t boundary =
                   config.parallel.pp == 1
                       ? 0
                       : config.train.micro_batch * config.data.seq_len * config.model.width * 2;
               if (config.model.experts == 0 || training.server) {
                 EXPECT_GE(measured, plan.usage.peak_total) << what << " rank " << world.rank();
               }
               EXPECT_LE(measured, plan.usage.peak_total + static_cast<uint64_t>(4 * boundary))
                   << what << " rank " << world.rank();
             }});
}

TEST(ServedLayouts, ThePlanIsTheMeasuredPeak) {
  for (const auto& [what, axes] : kServedAxes)
    expect_planned(with_servers(served_layout("llama", 2, axes), 1), what);
  for (const auto& [what, axes] : kExpertAxes) {
    expect_planned(with_servers(expert_layout("moe", axes), 1), "experts " + what);
  }
}

}  // namespace
}  // namespace athanor
