// Hybrid sharding of a model whose experts lie on several ranks: a set of shards has some ranks with the same experts,
// which share them out, or one alone. It computes what one process computes.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "athanor/train/plan/memory_plan.h"
#include "support/temporary_folder.h"
#include "train/layout_run.h"

namespace athanor::tests::hybrid_expert_test {
namespace {

struct HybridExpertRanks {
  int dp = 1, ep = 1, shard = 1, cp = 1, tp = 1, pp = 1;
  // Of a set of shards those with the same experts, and the sets that have such.
  int sharing() const { return std::max(1, shard * cp * tp / ep); }
  int sets() const { return dp * cp * tp / ep / sharing(); }
  std::string text() const {
    return fmt::format("dp {} ep {} sets of {} cp {} tp {} pp {}", dp, ep, shard, cp, tp, pp);
  }
};

constexpr HybridExpertRanks kAlone{.dp = 4, .ep = 2, .shard = 2}, kFewer{.dp = 4, .ep = 4, .shard = 2},
    kShared{.dp = 8, .ep = 2, .shard = 4}, kOverTp{.dp = 4, .shard = 2, .tp = 2};

Config hybrid_experts(const std::string& style, const std::string& optimizer) {
  Config config = tiny(style);
  config.precision.compute = "f32";
  config.model.num_experts = 8;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.optimizer.name = optimizer;
  if (optimizer == "adamw") config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";  // runs may end early
  return config;
}

Config in_hybrid(Config config, const HybridExpertRanks& ranks, int zero) {
  ParallelConfig& p = config.parallel;
  p.dp = ranks.dp;
  p.ep = ranks.ep;
  p.cp = ranks.cp;
  p.tp = ranks.tp;
  p.pp = ranks.pp;
  p.zero_stage = zero;
  p.shard_degree = ranks.shard;
  return config;
}

// A rank keeps 1/sharing of its experts, whatever the number of sets; each set has all of them.
TEST(HybridExperts, ShareTheirShardsWithinASet) {
  for (const HybridExpertRanks& ranks : {kAlone, kFewer, kShared, kOverTp}) {
    std::mutex mutex;
    std::map<std::string, std::vector<int64_t>> kept;  // by rank, of each stack
    const Config config = in_hybrid(hybrid_experts("moe", "adamw"), ranks, 1);
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 const std::lock_guard lock(mutex);
                 for (const auto& param : training.model->params()) {
                   if (!param->is_stack()) continue;
                   auto& of = kept[param->name()];
                   of.resize(static_cast<size_t>(world.size()));
                   of[static_cast<size_t>(world.rank())] = param->range().count();
                 }
               }});
    ASSERT_FALSE(kept.empty());
    const ModelConfig& m = config.model;
    const int64_t whole = m.num_experts * m.moe_intermediate_size * m.hidden_size;
    for (const auto& [name, counts] : kept) {
      int64_t sum = 0;
      for (const int64_t count : counts) sum += count;
      EXPECT_EQ(sum, ranks.sets() * whole) << name << " " << ranks.text();
      if (ranks.sharing() > 1) continue;
      for (const int64_t count : counts) EXPECT_EQ(count, whole / ranks.ep) << name << " " << ranks.text();
    }
  }
}

// What the ranks with the same experts send: each share's f32 sums inside the set and across, its values inside.
TEST(HybridExperts, BytesAreThoseOfTheFormulas) {
  for (const HybridExpertRanks& ranks : {kAlone, kShared})
    for (const int zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} zero {}", ranks.text(), zero));
      const Config config = in_hybrid(hybrid_experts("moe", "sgd"), ranks, zero);
      std::map<std::thread::id, std::pair<Group*, Group*>> groups;
      std::mutex mutex;
      run_layout(config,
                 {.lay_out =
                      [&](Training& training, Mesh& mesh) {
                        training.split_experts(mesh.group(Axis::ep), mesh.group(Axis::edp),
                                               mesh.shape().expert_parts());
                        ReplicaGroups experts = make_expert_shards(mesh.world(), mesh.shape(), ranks.shard);
                        {
                          const std::lock_guard lock(mutex);
                          groups[std::this_thread::get_id()] = {experts.inner.get(), experts.across.get()};
                          EXPECT_EQ(experts.inner->size(), ranks.sharing());
                          EXPECT_EQ(experts.across->size(), ranks.sets());
                        }
                        training.share_shards(
                            make_replica_groups(mesh.world(), mesh.shape(), ranks.shard, "set of shards"),
                            std::move(experts));
                      },
                  .end =
                      [&](Training& training, TrainState&, World&) {
                        std::vector<Weight*> experts;
                        for (Weight* weight : training.model->weights())
                          if (weight->param().is_stack()) experts.push_back(weight);
                        const int64_t s = ranks.sharing(), c = ranks.sets(), steps = config.train.steps;
                        const Buckets buckets(experts, {.rows = static_cast<int>(s),
                                                        .bucket_bytes = config.parallel.bucket_bytes,
                                                        .by_unit = s > 1 && zero == 3});
                        int64_t row = 0, last = 0;
                        for (const Bucket& bucket : buckets.list) {
                          row += bucket.layout.count;
                          last += bucket.unit + 1 == buckets.num_units ? bucket.layout.count : 0;
                        }
                        for (const auto& param : training.model->params())  // what is on its way
                          if (zero < 3) static_cast<void>(param->value());
                        const std::lock_guard lock(mutex);
                        const auto& [inner, across] = groups.at(std::this_thread::get_id());
                        const Traffic inside = inner->traffic(), outside = across->traffic();
                        if (s == 1) {  // all that have them are across, where they are summed whole
                          EXPECT_EQ(inside.total().bytes, 0);
                          EXPECT_EQ(outside.total().bytes, 0);
                          return;
                        }
                        EXPECT_EQ(inside.of(Collective::reduce_scatter).bytes, steps * (s - 1) * 4 * row);
                        EXPECT_EQ(outside.of(Collective::all_reduce).bytes,
                                  steps * 2 * (c - 1) * 4 * row / c);
                        EXPECT_EQ(outside.total().bytes, outside.of(Collective::all_reduce).bytes);
                        // Before the first step, too; in stage 3 on the way to the loss and back, the last block but once.
                        EXPECT_EQ(inside.of(Collective::all_gather).bytes,
                                  (s - 1) * 4 * (zero < 3 ? (steps + 1) * row : steps * (2 * row - last)));
                      }});
    }
}

TEST(HybridExperts, AForgottenSumAcrossIsCaught) {
  const Config config = hybrid_experts("moe", "sgd");
  const VerifyRun one = run_layout(one_process(config));
  const auto planted = [&](const std::function<void(ReplicaGroups&)>& fault, const HybridExpertRanks& ranks,
                           int zero, Axis copies = Axis::edp) {
    return is_caught(
        in_hybrid(config, ranks, zero), one,
        {.lay_out =
             [&](Training& training, Mesh& mesh) {
               training.split_experts(mesh.group(Axis::ep), mesh.group(copies), mesh.shape().expert_parts());
               ReplicaGroups experts = make_expert_shards(mesh.world(), mesh.shape(), ranks.shard);
               fault(experts);
               training.share_shards(
                   make_replica_groups(mesh.world(), mesh.shape(), ranks.shard, "set of shards"),
                   std::move(experts));
             }},
        1e-4);
  };
  for (const int zero : {2, 3})
    EXPECT_TRUE(planted([](ReplicaGroups& experts) { experts.across = make_single_group(); }, kShared, zero));
  const auto none = [](ReplicaGroups&) {};
  EXPECT_TRUE(planted(none, kAlone, 1, Axis::pp)) << "of one rank, not of all that have them";
  EXPECT_FALSE(planted(none, kAlone, 1)) << "as it should be";
  for (const int zero : {1, 2, 3}) EXPECT_FALSE(planted(none, kShared, zero)) << "as it should be";
}

TEST(HybridExperts, ResumeToTheSameBits) {
  for (const auto& [ranks, zero] : {std::pair(kShared, 3), {kAlone, 1}, {kOverTp, 3}}) {
    const Config config = in_hybrid(hybrid_experts("moe_bias", "adamw"), ranks, zero);
    const VerifyRun whole = run_layout(config);
    const std::string folder = temporary_path("hybrid_experts");
    std::filesystem::remove_all(folder);
    Config first = config;
    first.train.steps = 2;
    run_layout(
        first, {.end = [&](Training& training, TrainState& state, World& world) {
          write_checkpoint_at(
              system_env(), world.all(), folder,
              {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
        }});
    const auto resume = [&](const Config& layout) {
      return run_layout(layout, {.begin = [&](Training& training, TrainState& state, World&) {
                          const Checkpoint checkpoint = Checkpoint::open(system_env(), folder);
                          training.load(checkpoint);
                          state = TrainState::from_json(checkpoint.state());
                          training.publish(state);
                        }});
    };
    const VerifyRun rest = resume(config);
    EXPECT_EQ(rest.weights, whole.weights) << zero;
    EXPECT_EQ(rest.state, whole.state) << zero;
    // The rest of it in one process, and in another layout.
    VerifyRun one = resume(one_process(config));
    EXPECT_NEAR(one.losses.back(), whole.losses.back(), 1e-5 * whole.losses.back());
    EXPECT_NEAR(resume(in_hybrid(config, kFewer, 2)).losses.back(), one.losses.back(),
                1e-5 * one.losses.back());
  }
}

TEST(HybridExperts, ThePlanHasTheirStates) {
  for (const HybridExpertRanks& ranks : {kAlone, kShared, kOverTp})
    for (const int zero : {1, 2, 3}) {
      Config config = in_hybrid(hybrid_experts("moe", "adamw"), ranks, zero);
      config.precision.compute = "bf16";
      config.train.steps = 2;
      run_layout(
          config, {.end = [&](Training& training, TrainState&, World& world) {
            const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
            const auto usage = training.arena.usage();
            for (const Category kept : {Category::parameters, Category::gradients, Category::optimizer})
              EXPECT_EQ(plan.usage.peak[static_cast<size_t>(kept)], usage.peak[static_cast<size_t>(kept)])
                  << name_of(kept) << " " << ranks.text() << " zero " << zero;
            EXPECT_LE(usage.peak_total, plan.usage.peak_total);  // of rows of tokens as many as can be
          }});
    }
}

}  // namespace
}  // namespace athanor::tests::hybrid_expert_test
