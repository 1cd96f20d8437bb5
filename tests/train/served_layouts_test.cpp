// Parameter servers as the trainer lays them out, workers that share sequences (cp) among them: synchronous ones are data
// parallelism of ZeRO 1 in the same layout, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/train/engine/micro_batch.h"
#include "athanor/train/plan/layout.h"
#include "athanor/train/plan/memory_plan.h"
#include "train/saved_run.h"

namespace athanor::tests::served_layouts_test {
namespace {

using ServedAxes = std::function<void(ParallelConfig&)>;

Config served_layout(const std::string& family, int dp, const ServedAxes& axes) {
  Config config = uneven(family, "adamw");
  config.train.steps = 4;
  config.schedule.decay = "constant";  // runs may end early
  config.parallel.dp = dp;
  axes(config.parallel);
  return config;
}

Config with_servers(Config config, int64_t servers) {
  config.parameter_server.servers = servers;
  return config;
}

Config with_zero_one(Config config) {
  config.parameter_server.servers = 0;
  config.parallel.zero_stage = 1;
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

const std::vector<std::pair<std::string, ServedAxes>> kServedAxes = {
    {"dp", [](ParallelConfig&) {}},
    {"dp recompute", [](ParallelConfig& p) { p.recompute = "selective"; }},
    {"cp ring", [](ParallelConfig& p) { p.cp = 2; }},
    {"cp ulysses", [](ParallelConfig& p) { p.cp = 2, p.cp_method = "ulysses"; }},
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

// The balancing bias is the workers': by the load of all of them.
TEST(ServedLayouts, OfExpertsAreDataParallelism) {
  for (const char* family : {"moe", "moe_bias"})
    for (const int cp : {1, 2}) {
      Config config = served_layout(family, 2, [cp](ParallelConfig& p) { p.cp = cp; });
      config.parallel.reduce = family == std::string("moe") ? "tree" : "fast";
      const VerifyRun got = run_layout(with_servers(config, 3 - cp)),
                      expected = run_layout(with_zero_one(config));
      expect_same_run(got, expected, fmt::format("{} {}", family, cp));
      ASSERT_EQ(got.experts.size(), expected.experts.size()) << family << cp;
      for (size_t i = 0; i < got.experts.size(); ++i)
        EXPECT_EQ(got.experts[i].chosen, expected.experts[i].chosen) << family << cp;
    }
}

TEST(ServedLayouts, InF16AndAsCodesAreDataParallelism) {
  for (const char* kind : {"none", "int8", "bf16"})
    for (const char* compute : {"f32", "f16"})
      for (const char* family : {"llama", "moe"}) {
        Config config = served_layout(family, 2, [](ParallelConfig& p) { p.cp = 2; });
        config.compression.method = kind;
        config.precision.compute = compute;
        config.precision.loss_scale = 16777216.0;  // the first steps overflow
        config.train.steps = 14;
        const VerifyRun expected = run_layout(with_zero_one(config));
        const bool half = std::string(compute) == "f16";
        EXPECT_EQ(std::isfinite(expected.grad_norms.front()), !half);
        EXPECT_TRUE(std::isfinite(expected.grad_norms.back()));
        expect_same_run(run_layout(with_servers(config, 2)), expected,
                        fmt::format("{} {} {}", kind, compute, family));
      }
}

// A checkpoint of servers goes on without them, and back: it is one of the logical model.
TEST(ServedLayouts, CheckpointsAreThoseOfTheLogicalModel) {
  for (const int cp : {1, 2}) {
    const Config config = served_layout("moe_bias", 2, [cp](ParallelConfig& p) { p.cp = cp; });
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

// docs/parallelism.md.
TEST(ServedLayouts, BytesAreThoseOfTheFormulas) {
  for (const char* family : {"gpt2", "moe"})
    for (const auto& [what, axes] : kServedAxes) {
      const Config config = with_servers(served_layout(family, 2, axes), 2);
      const auto check_bytes = [&, axes_are = what](Training& training, TrainState&, World& world) {
        const bool serves = training.server != nullptr;
        const ParallelConfig& p = config.parallel;
        const int64_t steps = config.train.steps, W = p.dp * p.cp, S = config.parameter_server.servers,
                      losses = 8 * static_cast<int64_t>(
                                       MicroBatchLosses::count(micro_batches_of_step(config.train), 2));
        const Buckets buckets(training.model->weights(), {.rows = static_cast<int>(S),
                                                          .bucket_bytes = p.bucket_bytes,
                                                          .by_unit = false,
                                                          .uses_apart = true,
                                                          .section = {}});
        int64_t with_values = 0;
        for (size_t b = 0; b < buckets.list.size(); ++b)
          if (!buckets.params(b).empty()) with_values += buckets.list[b].layout.total();
        const bool is_first = world.rank() == W;
        const int64_t bytes = serves ? (steps + 1) * W * (4 * with_values / S + 64 + (is_first ? losses : 0))
                                     : steps * (4 * buckets.total + 64 * S + losses);
        const Traffic traffic = serves ? training.server->traffic() : training.client->traffic();
        EXPECT_EQ(traffic.of(Collective::send).bytes, bytes) << axes_are << " rank " << world.rank();
        EXPECT_EQ(traffic.total().bytes, bytes) << axes_are << " rank " << world.rank();
      };
      run_layout(config, {.end = check_bytes});
    }
}

TEST(ServedLayouts, ThePlanIsTheMeasuredPeak) {
  for (const char* family : {"llama", "moe"})
    for (const auto& [what, axes] : kServedAxes) {
      Config config = with_servers(served_layout(family, 2, axes), 1);
      config.precision.compute = "bf16";
      run_layout(config, {.end = [&, axes_are = what](Training& training, TrainState&, World& world) {
                   const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                   const uint64_t measured = training.arena.usage().peak_total;
                   if (config.model.num_experts == 0 || training.server) {
                     EXPECT_GE(measured, plan.usage.peak_total) << axes_are << " rank " << world.rank();
                   }
                   EXPECT_LE(measured, plan.usage.peak_total) << axes_are << " rank " << world.rank();
                 }});
    }
}

}  // namespace
}  // namespace athanor::tests::served_layouts_test
