// Parameter servers on a model: synchronous ones compute what data parallelism computes, to the bit; asynchronous runs
// are run again from their schedule; nobody is too far ahead; what goes over the wire is what the documents say.
#include "athanor/parallel/parameter_server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <utility>

#include "athanor/parallel/parameter_server/worker.h"
#include "train/virtual_ranks.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

struct Layout {
  int workers = 1, servers = 1;
  Consistency consistency = Consistency::sync;
  int64_t staleness = 0;
};

struct Observed {
  Outcome outcome;                                 // of worker 0; weights of the servers
  std::vector<std::vector<double>> loss_scales;    // by worker: of its steps
  std::vector<std::vector<PushRecord>> schedules;  // by server
  std::vector<Traffic> traffic;                    // by rank
  std::vector<std::string> failures;               // by rank: what a rank that could go on otherwise was told
  int64_t buckets_total = 0, values_total = 0;
};

struct Plant {
  std::vector<std::vector<PushRecord>> replay = {};
  std::function<void(int worker, int64_t step)> before_push = {};
  int64_t commit_every = 1'000'000;
  int64_t stop_wished_at = 0;  // by worker 0
};

ServerSettings settings_of(const Config& config, const Layout& layout) {
  return {.roles = {.workers = layout.workers, .servers = layout.servers},
          .consistency = layout.consistency,
          .staleness = layout.staleness,
          .reduce = config.parallel.reduce == "tree" ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = config.parallel.bucket_bytes,
          .num_grains = (config.train.global_batch + config.train.micro_batch - 1) / config.train.micro_batch,
          .num_losses = 2};
}

class ServerRun {
 public:
  ServerRun(const Config& config, const Layout& layout, const Plant& plant)
      : config_(config), layout_(layout), plant_(plant), settings_(settings_of(config, layout)) {
    observed_.schedules.resize(static_cast<size_t>(layout.servers));
    observed_.traffic.resize(static_cast<size_t>(settings_.roles.size()));
    observed_.loss_scales.resize(static_cast<size_t>(layout.workers));
    observed_.failures.resize(static_cast<size_t>(settings_.roles.size()));
  }

  const Observed& observed() const { return observed_; }
  const Observed& run() {
    GroupOptions options;
    options.timeout_ms = 120'000;
    const auto worlds = make_thread_worlds(settings_.roles.size(), options);
    run_ranks(worlds, [this](World& world) {
      const int rank = world.rank();
      std::vector<int> members;
      const bool serves = settings_.roles.is_server(rank);
      for (int r = 0; r < world.size(); ++r)
        if (settings_.roles.is_server(r) == serves) members.push_back(r);
      const auto peers = world.make_group(members, serves ? "servers" : "workers");
      Engine engine;
      const auto model = make_model(config_.model);
      try {
        if (serves) {
          serve(world, *peers, engine, *model);
        } else {
          work(world, *peers, engine, *model);
        }
      } catch (const Recoverable& error) {
        observed_.failures[static_cast<size_t>(rank)] = error.what();
        throw;
      }
      world.all().barrier("end");
      observed_.traffic[static_cast<size_t>(rank)] = world.all().traffic();
    });
    return observed_;
  }

 private:
  bool commits(int64_t step) const { return step == config_.train.steps || step % plant_.commit_every == 0; }

  void serve(World& world, Group& servers, Engine& engine, Model& model) {
    const auto optimizer = make_optimizer({.name = config_.optimizer.name}, model.params());
    const auto me = static_cast<size_t>(servers.rank());
    ServerOptions options{
        .schedule = {.lr = config_.optimizer.lr, .steps = config_.train.steps, .warmup_steps = 2},
        .clip_norm = config_.optimizer.clip_norm,
        .on_push = [this, me](const PushRecord& record) { observed_.schedules[me].push_back(record); }};
    if (!plant_.replay.empty()) options.replay = plant_.replay[me];
    ParameterServer server(model, *optimizer, world.all(), servers, engine.arena, settings_, options);
    model.allocate(engine.arena, settings_.dtype, /*with_master=*/true);
    optimizer->allocate(engine.arena);
    model.initialize(config_.train.seed);
    server.start({.loss_scale = first_state(config_).loss_scale});
    Served served;
    while (served.step < config_.train.steps && !served.stop) served = server.serve();
    weights_of(model, servers);
  }

  // Of all servers, put together as a checkpoint puts them.
  void weights_of(const Model& model, Group& servers) {
    for (const auto& param : model.params()) {
      std::vector<float> whole(static_cast<size_t>(param->numel()), 0.0f);
      copy_to_host(whole.data() + param->range().first, param->master(), param->master().size_bytes());
      servers.all_reduce(whole.data(), param->numel(), Dtype::f32, "weights").wait();
      if (servers.rank() > 0) continue;
      observed_.outcome.weights.insert(observed_.outcome.weights.end(), whole.begin(), whole.end());
    }
  }

  void work(World& world, Group& workers, Engine& engine, Model& model) {
    const int me = workers.rank();
    ServerClient servers(model, world.all(), workers, engine.arena, settings_, nullptr);
    model.allocate(engine.arena, settings_.dtype, /*with_master=*/false);
    servers.allocate();
    servers.start();
    int64_t stop_step = 0;
    double loss_scale = first_state(config_).loss_scale.scale;
    for (int64_t step = 1; step <= config_.train.steps && (stop_step == 0 || step <= stop_step); ++step) {
      std::vector<double> losses(2, 0.0);
      GradientSum& gradients = servers.gradients();
      gradients.begin_step(settings_.num_grains);
      for (const int64_t grain : gradients.grains_of_step(settings_.num_grains)) {
        const auto begin = [&](Tape& tape) {
          if (WeightReady ready = gradients.begin_grain(grain)) tape.on_weight_ready(std::move(ready));
        };
        const Accumulated done =
            compute_grain_of(config_, model, engine.arena, step, grain, begin, loss_scale);
        losses[0] += done.loss;
        losses[1] += done.tokens;
        gradients.end_grain();
      }
      gradients.finish();
      if (plant_.before_push) plant_.before_push(me, step);
      const AnswerHeader answer = servers.exchange(
          {.step = step,
           .commit = commits(step) || step == stop_step,
           .stop_here = step == stop_step,
           .wants_stop = me == 0 && plant_.stop_wished_at > 0 && step >= plant_.stop_wished_at,
           .tokens = losses[1],
           .loss_scale = loss_scale},
          config_.optimizer.clip_norm, losses);
      stop_step = answer.stop_step;
      observed_.loss_scales[static_cast<size_t>(me)].push_back(loss_scale);
      const double used = std::exchange(loss_scale, answer.loss_scale);
      if (me > 0) continue;
      StepResult result;
      result.loss = losses[0] / losses[1];
      result.tokens = static_cast<int64_t>(losses[1]);
      result.grad_norm = answer.grad_norm;
      result.loss_scale = used;
      result.applied = std::isfinite(answer.grad_norm);
      observed_.outcome.steps.push_back(result);
    }
    servers.settle();
    if (me > 0) return;
    const Buckets buckets(model.weights(), settings_.buckets());
    observed_.buckets_total = buckets.total;
    for (size_t b = 0; b < buckets.list.size(); ++b)
      if (!buckets.params(b).empty()) observed_.values_total += buckets.list[b].layout.total();
  }

  Config config_;
  Layout layout_;
  Plant plant_;
  ServerSettings settings_;
  Observed observed_;
};

Observed run_servers(const Config& config, const Layout& layout, const Plant& plant = {}) {
  return ServerRun(config, layout, plant).run();
}

Config small(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.optimizer.name = optimizer;
  config.optimizer.betas = {0.9, 0.95};
  config.schedule.warmup_steps = 2;
  return config;
}

// Weights and norms to the bit. Losses are added in another order than by the trainer, which sums them by grain.
void expect_same(const Outcome& got, const Outcome& expected, const std::string& what) {
  EXPECT_EQ(got.weights, expected.weights) << what;
  ASSERT_EQ(got.steps.size(), expected.steps.size()) << what;
  for (size_t i = 0; i < got.steps.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(got.steps[i].grad_norm),
              std::bit_cast<uint64_t>(expected.steps[i].grad_norm))
        << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].loss_scale, expected.steps[i].loss_scale) << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].applied, expected.steps[i].applied) << what << ", step " << i + 1;
    EXPECT_EQ(got.steps[i].tokens, expected.steps[i].tokens) << what;
    EXPECT_NEAR(got.steps[i].loss, expected.steps[i].loss, 1e-12) << what;
  }
}

TEST(ParameterServer, SynchronousIsDataParallelToTheBit) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const char* reduce : {"fast", "tree"}) {
        Config config = small(family, optimizer);
        config.parallel.reduce = reduce;
        for (const auto& [workers, servers] : {std::pair(1, 1), {2, 1}, {3, 2}, {2, 3}})
          expect_same(run_servers(config, {workers, servers}).outcome, run(config, workers),
                      fmt::format("{} {} {} {}+{}", family, optimizer, reduce, workers, servers));
      }
}

TEST(ParameterServer, SynchronousInBf16WithDropoutIsDataParallelToTheBit) {
  Config config = small("gpt2", "adamw");
  config.precision.compute = "bf16";
  config.model.dropout = 0.1;
  config.parallel.reduce = "tree";
  expect_same(run_servers(config, {3, 2}).outcome, run(config, 1), "bf16");
}

// The first steps overflow; the scale falls, then grows and falls again.
Config half(const std::string& family, int64_t steps) {
  Config config = small(family, "adamw");
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
        expect_same(run_servers(config, {workers, servers}).outcome, expected,
                    fmt::format("{} {} {}+{}", family, reduce, workers, servers));
      }
    }
}

TEST(ParameterServer, AsynchronousRunsAreRunAgainFromTheirSchedule) {
  Config config = small("gpt2", "adamw");
  config.train.steps = 8;
  for (const Consistency consistency : {Consistency::async, Consistency::bounded}) {
    const Layout layout{.workers = 3, .servers = 2, .consistency = consistency, .staleness = 2};
    const Observed first = run_servers(config, layout);
    ASSERT_EQ(first.schedules[0].size(), 24u);
    for (int again = 0; again < 2; ++again) {
      const Observed second = run_servers(config, layout, {.replay = first.schedules});
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
    const Layout layout{.workers = 3, .servers = 2, .consistency = consistency, .staleness = 2};
    const Observed first = run_servers(config, layout, {.commit_every = 4});
    const Observed second = run_servers(config, layout, {.replay = first.schedules, .commit_every = 4});
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

// A schedule that a plain asynchronous run would hardly take: one worker does all of its steps first.
std::vector<PushRecord> one_after_the_other(int workers, int64_t steps) {
  PushOrder order(workers, PushOrder::kUnbounded, 0, 0);
  order.take_answers();
  std::vector<PushRecord> records;
  for (int worker = workers - 1; worker >= 0; --worker)
    for (int64_t step = 1; step <= steps; ++step) {
      records.push_back(order.apply({.worker = worker, .step = step, .commit = step == steps}));
      order.take_answers();
    }
  return records;
}

TEST(ParameterServer, FollowsAScriptedOrderAndRefusesAnother) {
  Config config = small("llama", "sgd");
  config.train.steps = 5;
  const Layout layout{.workers = 2, .servers = 1, .consistency = Consistency::async};
  const Plant script{.replay = {one_after_the_other(2, 5)}};
  const Observed observed = run_servers(config, layout, script);
  EXPECT_EQ(observed.schedules, script.replay);
  EXPECT_NE(
      observed.outcome.weights,
      run_servers(config, {.workers = 2, .servers = 1, .consistency = Consistency::bounded}).outcome.weights);
  EXPECT_EQ(observed.schedules[0][5].pulled, 0);  // worker 0's first gradient misses five updates
  EXPECT_EQ(observed.schedules[0][4].staleness, 4);
  const auto message = [&](const Plant& plant) -> std::string {
    try {
      run_servers(config, layout, plant);
    } catch (const Failure& error) {  // of the server, or of a worker that it tells
      return error.what();
    }
    return "";
  };
  Plant changed = script;
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
  const Observed observed =
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
  Config config = small("llama", "sgd");
  config.model.layers = 1;
  config.train.global_batch = 3;
  config.train.micro_batch = 1;
  config.data.seq_len = 2;
  config.train.steps = 12;
  for (const int64_t bound : {0, 1, 4}) {
    const Observed observed = run_servers(
        config, {.workers = 3, .servers = 2, .consistency = Consistency::bounded, .staleness = bound});
    for (const auto& schedule : observed.schedules) {
      ASSERT_EQ(schedule.size(), 36u);
      for (const PushRecord& record : schedule) EXPECT_LE(record.staleness, bound);
    }
  }
}

TEST(ParameterServer, EveryTokenIsToldOnceAndAllStopTogether) {
  Config config = small("llama", "adamw");
  config.train.steps = 60;
  for (const Consistency consistency : {Consistency::sync, Consistency::bounded, Consistency::async}) {
    const Observed observed =
        run_servers(config, {.workers = 2, .servers = 2, .consistency = consistency, .staleness = 3},
                    {.commit_every = 5, .stop_wished_at = 7});
    const auto steps = static_cast<int64_t>(observed.outcome.steps.size());
    EXPECT_GE(steps, 7);
    EXPECT_LT(steps, 60);
    int64_t tokens = 0;
    for (const StepResult& step : observed.outcome.steps) tokens += step.tokens;
    EXPECT_EQ(tokens, steps * config.train.global_batch * config.data.seq_len);
    if (consistency == Consistency::sync) continue;
    for (const auto& schedule : observed.schedules)
      EXPECT_EQ(static_cast<int64_t>(schedule.size()), 2 * steps);
  }
}

TEST(ParameterServer, BytesAreThoseOfTheFormulas) {
  for (const char* reduce : {"fast", "tree"})
    for (const Consistency consistency : {Consistency::sync, Consistency::async}) {
      if (consistency == Consistency::async && std::string(reduce) == "tree") continue;
      Config config = small("gpt2", "adamw");
      config.precision.compute = "bf16";
      config.parallel.reduce = reduce;
      const Layout layout{.workers = 2, .servers = 2, .consistency = consistency};
      const Observed observed = run_servers(config, layout);
      const int64_t steps = config.train.steps, losses = 2 * 8, header = 64;
      for (int worker = 0; worker < 2; ++worker) {
        const LeafRange grains = grains_of_rank(5, 2, worker);
        const int64_t sums = std::string(reduce) == "tree"
                                 ? static_cast<int64_t>(cover_nodes(grains.first, grains.second, 5).size())
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
    ServerRun run(small("llama", "sgd"), {.workers = 2, .servers = 2, .consistency = consistency},
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
}  // namespace athanor
