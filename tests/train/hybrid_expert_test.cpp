// Hybrid sharding of a model whose experts lie on several ranks: a shard group has some ranks with the same experts, which
// share them out, or one alone. That it computes what one process computes is rows of train/layouts.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "train/layouts/layout_case.h"

namespace athanor::tests::hybrid_expert_test {
namespace {

// Of a shard group the ranks with the same experts, and the shard groups that have such.
int sharing(const Axes& axes) {
  return static_cast<int>(std::max<int64_t>(1, axes.shard * axes.cp * axes.tp / axes.ep));
}
int sets(const Axes& axes) {
  return static_cast<int>(axes.dp * axes.cp * axes.tp / axes.ep) / sharing(axes);
}

const Axes kAlone{.dp = 4, .ep = 2, .zero = 1, .shard = 2}, kFewer{.dp = 4, .ep = 4, .zero = 1, .shard = 2},
    kShared{.dp = 8, .ep = 2, .zero = 1, .shard = 4}, kOverTp{.dp = 4, .tp = 2, .zero = 1, .shard = 2};

Config hybrid_experts(const Axes& axes) {
  Config config = eight_experts(tiny("moe"));
  config.precision.compute = "f32";
  config.train.global_batch_size = 16;  // eight micro-batches
  config.optimizer.name = "sgd";
  return in_axes(config, axes);
}

// A rank keeps 1/sharing of its experts, whatever the number of sets; each set has all of them.
TEST(HybridExperts, ShareTheirShardsWithinASet) {
  for (const Axes& axes : {kAlone, kFewer, kShared, kOverTp}) {
    SCOPED_TRACE(text_of(axes));
    std::array<std::map<std::string, int64_t>, 8> kept;  // by rank, of each stack
    const Config config = hybrid_experts(axes);
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 for (const auto& param : training.model->params())
                   if (param->is_stack())
                     kept[static_cast<size_t>(world.rank())][param->name()] = param->range().count();
               }});
    ASSERT_FALSE(kept[0].empty());
    const ModelConfig& m = config.model;
    const int64_t whole = m.num_experts * m.moe_intermediate_size * m.hidden_size;
    for (const auto& [name, first] : kept[0]) {
      int64_t sum = 0;
      for (int64_t rank = 0; rank < axes.dp * axes.tp; ++rank) {
        const int64_t count = kept[static_cast<size_t>(rank)].at(name);
        sum += count;
        if (sharing(axes) == 1) {
          EXPECT_EQ(count, whole / axes.ep) << name;
        }
      }
      EXPECT_EQ(sum, sets(axes) * whole) << name;
    }
  }
}

// What the ranks with the same experts send: each share's f32 sums inside the set and across, its values inside.
TEST(HybridExperts, BytesAreThoseOfTheFormulas) {
  for (Axes axes : {kAlone, kShared})
    for (const int zero : {1, 2, 3}) {
      axes.zero = zero;
      SCOPED_TRACE(text_of(axes));
      const Config config = hybrid_experts(axes);
      const auto expect_bytes = [&](Training& training, TrainState&, World&) {
        std::vector<Weight*> experts;
        for (Weight* weight : training.model->weights())
          if (weight->param().is_stack()) experts.push_back(weight);
        const int64_t s = sharing(axes), c = sets(axes), steps = config.train.steps;
        const Buckets buckets(experts, {.rows = static_cast<int>(s),
                                        .bucket_bytes = config.parallel.bucket_bytes,
                                        .by_unit = s > 1 && zero == 3});
        int64_t row = 0, last = 0;
        for (const Bucket& bucket : buckets.list) {
          row += bucket.layout.count;
          last += bucket.unit + 1 == buckets.num_units ? bucket.layout.count : 0;
        }
        finish_gathers(training, config);
        const Group *inner = training.groups().expert.shard, *across = training.groups().expert.replicate;
        EXPECT_EQ(inner->size(), sharing(axes));
        EXPECT_EQ(across->size(), sets(axes));
        const Traffic inside = inner->traffic(), outside = across->traffic();
        if (s == 1) {  // all that have them are across, where they are summed whole
          EXPECT_EQ(inside.total().bytes, 0);
          EXPECT_EQ(outside.total().bytes, steps * 2 * (c - 1) * 4 * row / c);
          return;
        }
        EXPECT_EQ(inside.of(Collective::reduce_scatter).bytes, steps * (s - 1) * 4 * row);
        EXPECT_EQ(outside.of(Collective::all_reduce).bytes, steps * 2 * (c - 1) * 4 * row / c);
        EXPECT_EQ(outside.total().bytes, outside.of(Collective::all_reduce).bytes);
        // Before the first step, too; in stage 3 on the way to the loss and back, the last block but once.
        EXPECT_EQ(inside.of(Collective::all_gather).bytes,
                  (s - 1) * 4 * (zero < 3 ? (steps + 1) * row : steps * (2 * row - last)));
      };
      run_layout(config, {.end = expect_bytes});
    }
}

TEST(HybridExperts, AForgottenSumAcrossIsCaught) {
  const VerifyRun& one = run_once(one_process(hybrid_experts(kAlone)));
  const auto planted = [&](const std::function<void(Groups&)>& fault, Axes axes, int zero) {
    axes.zero = zero;
    return is_caught(hybrid_experts(axes), one, {.groups = fault}, 1e-4);
  };
  for (const int zero : {2, 3})
    EXPECT_TRUE(planted([](Groups& groups) { groups.expert.replicate = groups.pipeline; }, kShared, zero));
  const auto none = [](Groups&) {};
  EXPECT_TRUE(planted([](Groups& groups) { groups.expert.sum = groups.expert.replicate = groups.pipeline; },
                      kAlone, 1))
      << "of one rank, not of all that have them";
  EXPECT_FALSE(planted(none, kAlone, 1)) << "as it should be";
  for (const int zero : {1, 2, 3}) EXPECT_FALSE(planted(none, kShared, zero)) << "as it should be";
}

}  // namespace
}  // namespace athanor::tests::hybrid_expert_test
