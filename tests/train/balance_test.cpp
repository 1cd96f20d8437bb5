// Micro-batches by speed: units (data-parallel ranks, of ranks that share micro-batches by tp, pp and cp) take other numbers of
// them from step to step, and the bits are those of even shares and of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "athanor/engine/load_balancer.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/parallel/data/micro_batch_shares.h"
#include "athanor/parallel/data/pass_plan.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::balance_test {
namespace {

using ::testing::ElementsAre;
using Counts = std::vector<int64_t>;

// Eight micro-batches for two units: even shares are {4, 4}.
Config in_units(const std::string& family, const Axes& axes, const std::string& optimizer = "adamw") {
  Config config = eight_experts(tiny(family));
  config.model.num_hidden_layers = 4;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.train.global_batch_size = 15;
  config.parallel.reduce = "tree";
  config.parallel.load_balance = "speed";
  config.parallel.load_balance_every = 1;
  return in_axes(config, axes);
}

std::string text_of_units(const Config& config) {
  return fmt::format("{} {} {}", config.model.model_type, config.optimizer.name, text_of(config));
}

void take(Training& training, const Counts& counts) {
  training.role->gradients()->share_micro_batches(counts);
  const Group& sharing = *training.groups().balance;
  const auto unit = static_cast<size_t>(
      balance_units(training.layout(), sharing.size())[static_cast<size_t>(sharing.rank())]);
  EXPECT_EQ(std::ssize(training.own_micro_batches()), counts[unit]);
}

// These from the first step on, then the next ones after each step.
LayoutHooks with_shares(const std::vector<Counts>& shares) {
  return {.begin = [shares](Training& training, TrainState&, World&) { take(training, shares[0]); },
          .after_step =
              [shares](Training& training, TrainState& state, World&) {
                take(training, shares[static_cast<size_t>(state.step) % shares.size()]);
              }};
}

void expect_the_bits_of_even_shares(const Config& config, const std::vector<Counts>& shares) {
  const VerifyRun even = run_layout(config), other = run_layout(config, with_shares(shares));
  EXPECT_TRUE(compare(other, even).bitwise) << text_of_units(config);
  EXPECT_EQ(other.losses.size(), static_cast<size_t>(config.train.steps));
  if (config.parallel.tp * config.parallel.cp > 1) return;
  EXPECT_TRUE(compare(other, run_layout(one_process(config))).bitwise) << text_of_units(config);
}

TEST(Balance, TheBitsDoNotChangeWhicheverUnitComputesAMicroBatch) {
  const std::vector<Counts> shares = {{5, 3}, {2, 6}, {7, 1}, {4, 4}};
  int turn = 0;
  for (const auto& [family, layout] : {std::pair("llama", Axes{.dp = 2, .tp = 2}),
                                       {"llama", {.dp = 2, .tp = 2, .sp = true}},
                                       {"llama", {.dp = 2, .pp = 2}},
                                       {"gpt2", {.dp = 2, .pp = 2, .schedule = "interleaved"}},
                                       {"moe_bias", {.dp = 2, .pp = 2, .schedule = "zb-v"}},
                                       {"llama", {.dp = 2, .pp = 2, .schedule = "gpipe"}},
                                       {"llama", {.dp = 2, .cp = 2}},
                                       {"llama", {.dp = 2, .cp = 2, .cp_method = "ulysses"}},
                                       {"llama", {.dp = 2, .tp = 2, .pp = 2}},
                                       {"llama", {.dp = 2, .pp = 2, .cp = 2, .schedule = "zb-h1"}}}) {
    Axes axes = layout;
    axes.zero = turn % 2;
    expect_the_bits_of_even_shares(in_units(family, axes, turn % 4 < 2 ? "adamw" : "sgd"), shares);
    ++turn;
  }
}

// Ranks with other experts that compute the same micro-batches, and parameter servers.
TEST(Balance, ExpertsAndServersAreTold) {
  const std::vector<Counts> shares = {{5, 3}, {2, 6}, {7, 1}};
  for (const auto& [family, axes] :
       {std::pair("moe", Axes{.dp = 2, .tp = 2}),
        {"moe_bias", {.dp = 2, .tp = 2, .ep = 2, .zero = 1}},
        {"moe", {.dp = 2, .cp = 2, .ep = 2}},
        {"moe_bias", {.dp = 2, .tp = 2, .cp = 2, .ep = 4, .zero = 1, .sp = true}}})
    expect_the_bits_of_even_shares(in_units(family, axes), shares);
  for (const auto& [family, axes] :
       {std::pair("gpt2", Axes{.dp = 2, .servers = 2}), {"llama", {.dp = 2, .cp = 2, .servers = 2}}}) {
    const Config config = in_units(family, axes);
    const auto run_with = [&](const std::vector<Counts>& taken) {
      return run_layout(config, {.after_step = [&](Training& training, TrainState& state, World&) {
                          if (state.step < config.train.steps)
                            take(training, taken[static_cast<size_t>(state.step) % taken.size()]);
                        }});
    };
    EXPECT_TRUE(compare(run_with(shares), run_with({{4, 4}})).bitwise) << text_of_units(config);
  }
}

TEST(Balance, ShardGroupsAndStateOnDiskAreShared) {
  const std::vector<Counts> four = {{1, 3, 2, 2}, {3, 1, 1, 3}};
  for (const Axes& axes :
       {Axes{.dp = 4, .tp = 2, .zero = 1, .shard = 2}, {.dp = 4, .pp = 2, .zero = 1, .shard = 2}})
    expect_the_bits_of_even_shares(in_units("llama", axes), four);
  for (const Axes& axes : {Axes{.dp = 2, .tp = 2, .zero = 1},
                           {.dp = 2, .pp = 2, .zero = 1, .schedule = "zb-h1"},
                           {.dp = 2, .cp = 2, .zero = 1, .cp_method = "ulysses"}}) {
    Config config = in_units("llama", axes, "sgd");
    config.offload.path = temporary_path("balance");
    config.offload.gradients = config.offload.activations = "disk";
    expect_the_bits_of_even_shares(config, {{5, 3}, {1, 7}});
  }
}

// What the load balancers of all ranks say after each step, where rank `slow(step)` takes three times as long as the others.
std::vector<Counts> partitioned(const Config& config, const std::function<int(int64_t)>& slow) {
  const int ranks = ranks_of(config);
  std::vector<std::unique_ptr<LoadBalancer>> balancers(static_cast<size_t>(ranks));
  std::vector<std::vector<Counts>> counts(static_cast<size_t>(ranks));
  // How many ranks computed each micro-batch of all steps.
  const int64_t num_micro_batches = (config.train.global_batch_size + 1) / config.train.micro_batch_size;
  std::vector<std::atomic<int>> computed(static_cast<size_t>(config.train.steps * num_micro_batches));
  const VerifyRun run = run_layout(
      config, 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) {
        ++computed[static_cast<size_t>((step - 1) * num_micro_batches + micro_batch)];
        batch = make_batch(config, step, micro_batch);
      },
      config.train.steps, ranks,
      {.begin =
           [&](Training& training, TrainState&, World& world) {
             balancers[static_cast<size_t>(world.rank())] = std::make_unique<LoadBalancer>(config, training);
           },
       .after_step =
           [&](Training& training, TrainState& state, World& world) {
             LoadBalancer& balancer = *balancers[static_cast<size_t>(world.rank())];
             const double seconds = (world.rank() == slow(state.step) ? 3.0 : 1.0) *
                                    static_cast<double>(training.own_micro_batches().size());
             const Counts before = balancer.counts();
             const bool anew =
                 balancer.after_step(state.step, {.forward = 0.25 * seconds, .backward = 0.75 * seconds},
                                     state.step < config.train.steps);
             EXPECT_EQ(anew, balancer.counts() != before);
             counts[static_cast<size_t>(world.rank())].push_back(balancer.counts());
             const Group& sharing = *training.groups().balance;
             const auto unit = static_cast<size_t>(
                 balance_units(training.layout(), sharing.size())[static_cast<size_t>(sharing.rank())]);
             EXPECT_EQ(std::ssize(training.own_micro_batches()), balancer.counts()[unit]);
           }});
  for (const auto& times : computed)
    EXPECT_EQ(times, ranks / config.parallel.dp) << "of a unit all ranks, once";
  Config even = config;
  even.parallel.load_balance = "even";
  EXPECT_TRUE(compare(run, run_layout(even)).bitwise) << text_of_units(config);
  const Layout layout = make_layout(config, {.world_size = ranks});
  for (int rank = 0; rank < ranks; ++rank) {
    if (dense_mesh(layout).coordinate(rank, axis::local_sgd) > 0) continue;
    EXPECT_EQ(counts[static_cast<size_t>(rank)], counts[0]) << "ranks disagree";
  }
  return counts[0];
}

// Ranks of dp alone take turns at being slow: every step is partitioned anew.
TEST(Balance, RanksTakeTurnsAtBeingSlow) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const int stage : {0, 1})
      for (const int ranks : {2, 3}) {
        Config config = in_units("gpt2", {.dp = ranks, .zero = stage}, optimizer);
        config.train.global_batch_size = 18;  // nine micro-batches
        config.train.steps = 5;
        const auto counts = partitioned(config, [&](int64_t step) { return static_cast<int>(step) % ranks; });
        for (size_t i = 1; i + 1 < counts.size(); ++i)
          EXPECT_NE(counts[i], counts[i - 1]) << "nothing was partitioned anew";
        Config even = config;
        even.parallel.load_balance = "even";
        EXPECT_TRUE(compare(run_layout(even), run_once(one_process(config))).bitwise)
            << text_of_units(config);
      }
}

TEST(Balance, ShardedGradientsAndWrongSharesAreRefused) {
  const auto share = [](int64_t zero, const Counts& counts) {
    Config config = in_units("llama", {.dp = 2, .zero = zero});
    config.parallel.load_balance = "even";
    config.train.global_batch_size = 18;  // nine micro-batches
    run_layout(config, {.begin = [&](Training& training, TrainState&, World&) {
                 training.role->gradients()->share_micro_batches(counts);
                 training.own_micro_batches();
               }});
  };
  EXPECT_NO_THROW(share(0, {4, 5}));
  EXPECT_THROW(share(2, {4, 5}), Error);
  EXPECT_THROW(share(0, {4, 4}), Error);
  EXPECT_THROW(share(0, {2, 3, 4}), Error);
}

// Each of the four ranks has its turn; the others of its unit are as fast as ever.
TEST(Balance, AUnitIsAsFastAsItsSlowestRank) {
  for (const Axes& axes : {Axes{.dp = 2, .tp = 2}, {.dp = 2, .pp = 2}, {.dp = 2, .cp = 2}}) {
    Config config = in_units("llama", axes);
    config.train.steps = 5;
    const auto counts = partitioned(config, [](int64_t step) { return static_cast<int>(step - 1); });
    const Counts first = {2, 6}, second = {6, 2};
    if (axes.pp == 2)  // ranks 0 and 2 are the stages of one pipeline
      EXPECT_THAT(counts, ElementsAre(first, second, first, second, second)) << text_of_units(config);
    else
      EXPECT_THAT(counts, ElementsAre(first, first, second, second, second)) << text_of_units(config);
  }
}

// Replica group 0 has ranks 0 to 3 with tp, and 0, 1, 4, 5 with pp: a slow one of replica group 1 is no affair of its.
TEST(Balance, ReplicaGroupsDealTheirOwnMicroBatches) {
  for (const Axes& axes : {Axes{.dp = 4, .tp = 2, .group = 2}, {.dp = 4, .pp = 2, .group = 2}}) {
    Config config = in_units("llama", axes);
    config.train.global_batch_size = 32;
    config.local_sgd.sync_interval = 2;
    const int second_of_0 = axes.pp == 2 ? 5 : 3, of_1 = axes.pp == 2 ? 2 : 4;
    const auto counts = partitioned(config, [&](int64_t step) { return step < 3 ? second_of_0 : of_1; });
    EXPECT_THAT(counts, ElementsAre(Counts{6, 2}, Counts{6, 2}, Counts{4, 4}, Counts{4, 4}))
        << text_of_units(config);
  }
}

// One rank of a unit with other micro-batches than the rest of it.
TEST(Balance, RanksOfAUnitWithOtherSharesShow) {
  const Config config = in_units("llama", {.dp = 2, .tp = 2});
  const VerifyRun even = run_layout(config);
  const auto with_rank_1_at = [](const Counts& its) {
    return LayoutHooks{.begin = [its](Training& training, TrainState&, World& world) {
      training.role->gradients()->share_micro_batches(world.rank() % 2 == 0 ? Counts{5, 3} : its);
    }};
  };
  EXPECT_FALSE(is_caught(config, even, with_rank_1_at({5, 3}), 0.0)) << "as it should be";
  EXPECT_TRUE(is_caught(config, even, with_rank_1_at({3, 5}), 1e-3));
}

// Law 7: the plan is of the largest shares that can be partitioned, and a run that has had them needs as much.
TEST(Balance, ThePlanIsThePeakOfTheLargestShares) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const Axes& axes :
       {Axes{.dp = 2}, {.dp = 2, .tp = 2}, {.dp = 2, .cp = 2}, {.dp = 2, .pp = 2, .schedule = "gpipe"}}) {
    Config config = in_units("llama", axes);
    config.precision.compute = "bf16";
    config.train.global_batch_size = 26;  // thirteen micro-batches
    config.train.steps = 5;
    LayoutHooks hooks = with_shares({{7, 6}, {12, 1}, {1, 12}, {12, 1}, {1, 12}});
    hooks.end = [&](Training& training, TrainState&, World& world) {
      const auto planned = plan_memory({config, 2, world.rank(), world.size()}).usage.peak_total;
      const auto measured = training.arena.usage().peak_total;
      if (axes.pp == 1) {
        EXPECT_EQ(measured, planned) << text_of_units(config) << " rank " << world.rank();
        return;
      }
      // What twelve micro-batches send stays until it has arrived, which the null device does not wait for.
      const int64_t boundary =
          config.train.micro_batch_size * config.data.seq_len * config.model.hidden_size * 2 + 64;
      EXPECT_GE(measured, planned) << text_of_units(config);
      EXPECT_LE(measured, planned + static_cast<uint64_t>(12 * boundary)) << text_of_units(config);
      Config even = config;
      even.parallel.load_balance = "even";
      EXPECT_LT(plan_memory({even, 2, world.rank(), world.size()}).usage.peak_total, planned);
    };
    run_layout(config, hooks);
  }
}

// The most partial sums that a rank can come to hold, of all shares and of the largest for its unit.
struct MostBuffers {
  int of_all = 0, of_largest = 0;
};

MostBuffers most_buffers(int units, int parts, int rank, int64_t micro_batches) {
  const int unit = rank / parts, behind = units - 1 - unit;
  MicroBatchShares shares(units * parts, rank, parts);
  MostBuffers most;
  for (int64_t before = unit; before <= (unit > 0 ? micro_batches - 1 - behind : 0); ++before) {
    Counts counts(static_cast<size_t>(units), 1);
    if (unit > 0) counts.front() += before - unit;
    // Fewer of its own, the rest to those behind it, would be a beginning of the same pass.
    counts[static_cast<size_t>(unit)] = micro_batches - before - behind;
    shares.set(counts);
    const int buffers =
        plan_pass(shares.own_leaves(micro_batches), shares.num_leaves(micro_batches)).num_buffers;
    most.of_all = std::max(most.of_all, buffers);
    if (before == unit) most.of_largest = buffers;
  }
  return most;
}

// Leaves of a unit in the middle, and of a part of each sequence, begin and end inside the tree; the largest share is then
// not the one that leaves the most partial sums. Of 999 micro-batches the plan runs fewer.
TEST(Balance, ThePlanHoldsForAnyShares) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const Axes& axes : {Axes{.dp = 5}, {.dp = 3, .cp = 2}}) {
    const auto units = static_cast<int>(axes.dp), parts = static_cast<int>(axes.cp);
    const Config base = in_units("llama", axes);
    const auto world = make_single_world();
    Engine engine;
    TrainingRank alone(one_process(base), *world, engine.arena);
    Training& training = alone.training;
    training.allocate();
    int largest_is_not_worst = 0;
    for (int rank = 0; rank < units * parts; ++rank) {
      const auto planned = [&](int64_t micro_batches, const char* balance) {
        Config config = base;
        config.train.global_batch_size = 2 * micro_batches;
        config.parallel.load_balance = balance;
        return plan_memory({config, 2, rank, units * parts})
            .usage.peak[static_cast<size_t>(Category::gradients)];
      };
      const MicroBatchShares even(units * parts, rank, parts);
      const int of_even = plan_pass(even.own_leaves(15), even.num_leaves(15)).num_buffers;
      for (const int64_t micro_batches : {15, 999}) {
        const MostBuffers most = most_buffers(units, parts, rank, micro_batches);
        EXPECT_EQ(planned(micro_batches, "speed"),
                  planned(15, "even") + static_cast<uint64_t>(most.of_all - of_even) *
                                            training.role->gradients()->buffer_bytes())
            << text_of_units(base) << " rank " << rank << " micro-batches " << micro_batches;
        largest_is_not_worst += most.of_largest < most.of_all ? 1 : 0;
      }
    }
    EXPECT_GT(largest_is_not_worst, 0) << text_of_units(base);
  }
}

}  // namespace
}  // namespace athanor::tests::balance_test
