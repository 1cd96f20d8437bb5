// Parameter servers on a model: synchronous ones skip the steps that data parallelism skips; asynchronous runs are run again
// from their schedule; nobody is too far ahead; what goes over the wire is what the documents say. That synchronous ones
// compute what data parallelism computes is rows of train/layouts.
#include "athanor/parallel/parameter_server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "train/server_ranks.h"

namespace athanor::tests::parameter_server_test {
namespace {

using ::testing::HasSubstr;

// Which of the not-a-numbers an overflow leaves is the compiler's choice.
uint64_t bits_of(double value) {
  return std::bit_cast<uint64_t>(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
}

// Weights and norms to the bit. Losses are added in another order than by the trainer, which sums them by micro-batch.
void expect_same_outcome(const Outcome& got, const Outcome& expected, const std::string& what) {
  EXPECT_EQ(got.weights, expected.weights) << what;
  ASSERT_EQ(got.steps.size(), expected.steps.size()) << what;
  for (size_t i = 0; i < got.steps.size(); ++i) {
    EXPECT_EQ(bits_of(got.steps[i].grad_norm), bits_of(expected.steps[i].grad_norm))
        << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].loss_scale, expected.steps[i].loss_scale) << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].applied, expected.steps[i].applied) << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].tokens, expected.steps[i].tokens) << what;
    EXPECT_NEAR(got.steps[i].loss, expected.steps[i].loss, 1e-12) << what;
  }
}

// The first steps overflow; the scale falls, then grows and falls again.
Config half(const std::string& family, int64_t steps) {
  Config config = small_served(family, "adamw");
  config.precision.compute = "f16";
  config.precision.loss_scale = 16777216.0;
  config.precision.loss_scale_window = 2;
  config.train.steps = steps;
  return config;
}

TEST(ParameterServer, SynchronousInF16SkipsTheStepsOfDataParallelism) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* reduce : {"fast", "tree"}) {
      Config config = half(family, 20);
      config.parallel.reduce = reduce;
      for (const auto& [workers, servers] : {std::pair(1, 1), {2, 2}, {3, 2}}) {
        const Outcome expected = run(config, workers);
        int skipped = 0;
        for (const StepResult& step : expected.steps) skipped += step.applied ? 0 : 1;
        EXPECT_GE(skipped, 2);
        EXPECT_LT(skipped, 15);
        expect_same_outcome(run_servers(config, {workers, servers}).outcome, expected,
                            fmt::format("{} {} {}+{}", family, reduce, workers, servers));
      }
    }
}

// Workers that take turns at being slow: new shares after every step, the bits of one process.
TEST(ParameterServer, MicroBatchesBySpeedChangeNoBit) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const auto& [workers, servers] : {std::pair(2, 1), {3, 2}}) {
      Config config = small_served("gpt2", optimizer);
      config.model.dropout = 0.1;
      config.parallel.reduce = "tree";
      config.train.global_batch_size = 18;  // nine micro-batches
      config.train.steps = 5;
      const int turns = workers;
      const ServersObserved observed = run_servers(
          config, {workers, servers},
          {.slow = [turns](int worker, int64_t step) { return step % turns == worker ? 3.0 : 1.0; }});
      expect_same_outcome(observed.outcome, run(config, 1),
                          fmt::format("{} {}+{}", optimizer, workers, servers));
      for (const auto& step : observed.computed)
        for (const int times : step) EXPECT_EQ(times, 1) << "a micro-batch of a step was computed by so many";
      ASSERT_EQ(observed.partitioned.size(), 4u);
      for (size_t i = 1; i < observed.partitioned.size(); ++i)
        EXPECT_NE(observed.partitioned[i], observed.partitioned[i - 1]) << "nothing was partitioned anew";
      // Bytes: of the sums that it holds, by the shares of each step; worker 0 tells them.
      for (int worker = 0; worker < workers; ++worker) {
        int64_t sums = 0;
        for (size_t step = 0; step < 5; ++step) {
          int64_t first = 0, last = 0;
          for (int w = 0; w <= worker; ++w) {
            const LeafRange even = micro_batches_of_rank(9, workers, w);
            first = last;
            last +=
                step == 0 ? even.second - even.first : observed.partitioned[step - 1][static_cast<size_t>(w)];
          }
          sums += static_cast<int64_t>(cover_nodes(first, last, 9).size());
        }
        const int64_t told = worker == 0 ? 4 * 8 * workers * servers : 0;
        EXPECT_EQ(observed.traffic[static_cast<size_t>(worker)].of(Collective::send).bytes,
                  sums * 4 * observed.buckets_total + 5 * (64 * servers + 8 * 2) + told);
      }
    }
}

TEST(ParameterServer, AsynchronousRunsAreRunAgainFromTheirSchedule) {
  Config config = small_served("gpt2", "adamw");
  config.train.steps = 8;
  for (const Consistency consistency : {Consistency::async, Consistency::bounded}) {
    const ServerLayout layout{.workers = 3, .servers = 2, .consistency = consistency, .staleness = 2};
    const ServersObserved first = run_servers(config, layout);
    ASSERT_EQ(first.schedules[0].size(), 24u);
    for (int again = 0; again < 2; ++again) {
      const ServersObserved second = run_servers(config, layout, {.replay = first.schedules});
      EXPECT_EQ(second.outcome.weights, first.outcome.weights);
      EXPECT_EQ(second.schedules, first.schedules);
      for (size_t i = 0; i < 8; ++i)
        EXPECT_EQ(second.outcome.steps[i].grad_norm, first.outcome.steps[i].grad_norm) << i;
    }
  }
}

TEST(ParameterServer, AsynchronousRunsInF16AreRunAgainFromTheirSchedule) {
  Config config = half("llama", 24);
  config.precision.loss_scale_window = 8;
  for (const Consistency consistency : {Consistency::async, Consistency::bounded}) {
    const ServerLayout layout{.workers = 3, .servers = 2, .consistency = consistency, .staleness = 2};
    const ServersObserved first = run_servers(config, layout, {.commit_every = 4});
    const ServersObserved second =
        run_servers(config, layout, {.replay = first.schedules, .commit_every = 4});
    EXPECT_EQ(second.outcome.weights, first.outcome.weights);
    EXPECT_EQ(second.schedules, first.schedules);
    EXPECT_EQ(second.loss_scales, first.loss_scales);
    for (const float w : first.outcome.weights) ASSERT_TRUE(std::isfinite(w));
    EXPECT_FALSE(first.outcome.steps.front().applied);
    int applied = 0;
    for (const StepResult& step : first.outcome.steps) applied += step.applied ? 1 : 0;
    EXPECT_GT(applied, 4);
    for (const auto& schedule : first.schedules) EXPECT_EQ(schedule.size(), 72u) << "skipped pushes count";
  }
}

TEST(ParameterServer, FollowsAScriptedOrderAndRefusesAnother) {
  Config config = small_served("llama", "sgd");
  config.train.steps = 5;
  const ServerLayout layout{.workers = 2, .servers = 1, .consistency = Consistency::async};
  const ServerPlant script{.replay = {one_after_the_other(2, 5)}};
  const ServersObserved observed = run_servers(config, layout, script);
  EXPECT_EQ(observed.schedules, script.replay);
  EXPECT_NE(
      observed.outcome.weights,
      run_servers(config, {.workers = 2, .servers = 1, .consistency = Consistency::bounded}).outcome.weights);
  EXPECT_EQ(observed.schedules[0][5].pulled, 0);  // worker 0's first gradient misses five updates
  EXPECT_EQ(observed.schedules[0][4].staleness, 4);
  const auto message = [&](const ServerPlant& plant) -> std::string {
    try {
      run_servers(config, layout, plant);
    } catch (const Failure& error) {  // of the server, or of a worker that it tells
      return error.what();
    }
    return "";
  };
  ServerPlant changed = script;
  changed.replay[0][7].pulled = 3;
  EXPECT_THAT(message(changed), HasSubstr("replay: update 8: got step 3 of worker 0"));
  changed = script;
  changed.replay[0].resize(6);
  EXPECT_THAT(message(changed), HasSubstr("replay: the recorded schedule ends with update 6"));
  changed = script;
  changed.replay[0][5].push.worker = 1;  // which waits for the last commit
  EXPECT_THAT(message(changed), HasSubstr("replay: update 6: worker 1 cannot push now"));
}

// Worker 0 begins with the scale that was the first one's, long after worker 1 has found out that it is too large.
TEST(ParameterServer, WhatOverflowsWithAnOldScaleSaysNothingOfThePresentOne) {
  Config config = half("llama", 14);
  config.precision.loss_scale_window = 1000;
  const ServersObserved observed =
      run_servers(config, {.workers = 2, .servers = 1, .consistency = Consistency::async},
                  {.replay = {one_after_the_other(2, config.train.steps)}});
  const std::vector<double>&late = observed.loss_scales[0], &early = observed.loss_scales[1];
  ASSERT_EQ(late.size(), 14u);
  EXPECT_EQ(early[1], early[0] / 2);
  EXPECT_LT(early.back(), early[1]);
  EXPECT_EQ(late[0], early[0]);
  EXPECT_FALSE(observed.outcome.steps[0].applied);
  EXPECT_EQ(late[1], early.back()) << "worker 1's last steps did not overflow";
}

TEST(ParameterServer, TheBoundHoldsOnARealRun) {
  Config config = small_served("llama", "sgd");
  config.model.num_hidden_layers = 1;
  config.train.global_batch_size = 3;
  config.train.micro_batch_size = 1;
  config.data.seq_len = 2;
  config.train.steps = 12;
  for (const int64_t bound : {0, 1, 4}) {
    const ServersObserved observed = run_servers(
        config, {.workers = 3, .servers = 2, .consistency = Consistency::bounded, .staleness = bound});
    for (const auto& schedule : observed.schedules) {
      ASSERT_EQ(schedule.size(), 36u);
      for (const PushRecord& record : schedule) EXPECT_LE(record.staleness, bound);
    }
  }
}

TEST(ParameterServer, EveryTokenIsToldOnceAndAllStopTogether) {
  Config config = small_served("llama", "adamw");
  config.train.steps = 60;
  for (const Consistency consistency : {Consistency::sync, Consistency::bounded, Consistency::async}) {
    const ServersObserved observed =
        run_servers(config, {.workers = 2, .servers = 2, .consistency = consistency, .staleness = 3},
                    {.commit_every = 5, .stop_wished_at = 7});
    const auto steps = static_cast<int64_t>(observed.outcome.steps.size());
    EXPECT_GE(steps, 7);
    EXPECT_LT(steps, 60);
    int64_t tokens = 0;
    for (const StepResult& step : observed.outcome.steps) tokens += step.tokens;
    EXPECT_EQ(tokens, steps * config.train.global_batch_size * config.data.seq_len);
    if (consistency == Consistency::sync) continue;
    for (const auto& schedule : observed.schedules)
      EXPECT_EQ(static_cast<int64_t>(schedule.size()), 2 * steps);
  }
}

TEST(ParameterServer, BytesAreThoseOfTheFormulas) {
  for (const char* reduce : {"fast", "tree"})
    for (const Consistency consistency : {Consistency::sync, Consistency::async}) {
      if (consistency == Consistency::async && std::string(reduce) == "tree") continue;
      Config config = small_served("gpt2", "adamw");
      config.precision.compute = "bf16";
      config.parallel.reduce = reduce;
      const ServerLayout layout{.workers = 2, .servers = 2, .consistency = consistency};
      const ServersObserved observed = run_servers(config, layout);
      const int64_t steps = config.train.steps, losses = 2 * 8, header = 64;
      for (int worker = 0; worker < 2; ++worker) {
        const LeafRange micro_batches = micro_batches_of_rank(5, 2, worker);
        const int64_t sums =
            std::string(reduce) == "tree"
                ? static_cast<int64_t>(cover_nodes(micro_batches.first, micro_batches.second, 5).size())
                : 1;
        EXPECT_EQ(observed.traffic[static_cast<size_t>(worker)].of(Collective::send).bytes,
                  steps * (sums * 4 * observed.buckets_total + 2 * header + losses))
            << reduce << worker;
      }
      // The first parameters, too.
      for (int server = 0; server < 2; ++server)
        EXPECT_EQ(observed.traffic[static_cast<size_t>(2 + server)].of(Collective::send).bytes,
                  2 * (steps + 1) * (2 * observed.values_total / 2 + header + (server == 0 ? losses : 0)))
            << reduce << server;
    }
}

TEST(ParameterServer, AWorkerThatDiesIsNamed) {
  for (const Consistency consistency : {Consistency::sync, Consistency::async}) {
    ServerRun run(small_served("llama", "sgd"), {.workers = 2, .servers = 2, .consistency = consistency},
                  {.before_push = [](int worker, int64_t step) {
                    if (worker == 1 && step == 3) throw Error("the fault of this test");
                  }});
    EXPECT_THROW(run.run(), Error);
    for (const size_t rank : {0, 2, 3}) {
      EXPECT_THAT(run.observed().failures[rank], HasSubstr("rank 1")) << rank;
      EXPECT_THAT(run.observed().failures[rank], HasSubstr("the fault of this test")) << rank;
    }
  }
}

}  // namespace
}  // namespace athanor::tests::parameter_server_test
