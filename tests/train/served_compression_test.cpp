// Compressed pushes to parameter servers: synchronous ones are data parallelism of ZeRO 1 to the bit and both are their
// definition, one process with as many virtual workers; asynchronous ones are that of their schedule.
#include <gtest/gtest.h>

#include "train/defined_sums.h"
#include "train/layouts/layout_case.h"
#include "train/role_of.h"
#include "train/server_ranks.h"

namespace athanor::tests::served_compression_test {
namespace {

const char* const kKinds[] = {"bf16", "int8"};

Config compressed_servers(const std::string& kind, const std::string& family, const std::string& optimizer) {
  Config config = several_blocks(small_served(family, optimizer));
  config.compression.method = kind;
  return config;
}

// What servers compute by definition: blocks are summed by who updates them, and the sum is not coded.
Config by_who_updates(Config config) {
  config.parallel.zero_stage = 1;
  return config;
}

// One worker, too, compresses what it pushes. Of several, and after plain steps, it is ZeRO 1 to the bit: rows of train/layouts.
TEST(ServedCompression, SynchronousIsItsDefinition) {
  for (const char* kind : kKinds)
    for (const char* optimizer : {"adamw", "sgd"})
      for (const auto& [workers, servers] : {std::pair(1, 2), {2, 1}, {3, 2}, {2, 3}}) {
        const Config config = compressed_servers(kind, servers == 2 ? "gpt2" : "llama", optimizer);
        expect_defined(run_layout(in_axes(config, {.dp = workers, .servers = servers})),
                       define_run(by_who_updates(config), workers), {},
                       fmt::format("{} {} {}+{}", kind, optimizer, workers, servers));
      }
}

// The scale grows every second step, or falls first: what is owed has neither.
TEST(ServedCompression, SynchronousInF16IsDataParallelToTheBit) {
  for (const char* kind : kKinds)
    for (const double scale : {256.0, 16777216.0}) {
      Config config = compressed_servers(kind, "gpt2", "adamw");
      config.precision.compute = "f16";
      config.precision.loss_scale = scale;
      config.precision.loss_scale_window = 2;
      config.train.steps = 12;
      const Outcome expected = run(by_who_updates(config), 2), got = run_servers(config, {2, 2}).outcome;
      EXPECT_EQ(expected.steps.front().applied, scale < 1e6);
      EXPECT_EQ(got.weights, expected.weights) << kind << scale;
      for (size_t i = 0; i < got.steps.size(); ++i)
        EXPECT_EQ(got.steps[i].applied, expected.steps[i].applied) << kind << scale << ", step " << i + 1;
    }
}

TEST(ServedCompression, ForgottenErrorFeedbackShows) {
  for (const char* kind : kKinds) {
    const Config config = compressed_servers(kind, "llama", "sgd");
    Config forgotten = config;
    forgotten.compression.error_feedback = false;
    const WholeTensors got = run_layout(in_axes(forgotten, {.dp = 2, .servers = 2})).weights;
    EXPECT_EQ(weights_gap(got, define_run(by_who_updates(forgotten), 2).weights), 0.0) << kind;
    EXPECT_GT(weights_gap(got, define_run(by_who_updates(config), 2).weights), 0.0) << kind;
  }
}

// Worker 1 makes all of its steps first, each with what it has just done; then worker 0, whose first gradient is of the
// parameters that all began with. Residuals are each worker's own; norms, by which pushes are clipped, those of what is sent.
Floats define_one_after_the_other(const Config& config) {
  Engine engine, stale_engine;
  const auto world = make_single_world();
  TrainingRank now_rank(one_rank_of(config), *world, engine.arena);
  TrainingRank stale_rank(one_rank_of(config), *world, stale_engine.arena);
  Training &now = now_rank.training, &stale = stale_rank.training;
  for (Training* training : {&now, &stale}) {
    training->allocate();
    training->model->initialize(config.train.seed);
  }
  std::vector<DefinedSums> sums(2, DefinedSums(by_who_updates(config)));
  int64_t update = 0;
  for (const int worker : {1, 0})
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      Training& of = worker == 0 && step == 1 ? stale : now;
      const DefinedStep done = sums[static_cast<size_t>(worker)].step(
          of, step, {{micro_batches_of_rank(now.num_micro_batches, 2, worker)}});
      std::map<const Param*, const Param*> computed;
      for (size_t i = 0; i < now.model->params().size(); ++i)
        computed[now.model->params()[i].get()] = of.model->params()[i].get();
      role_of(now).optimizer().step(
          [&](Param& param) -> const Tensor& { return done.grads.at(computed.at(&param)); },
          {.update = ++update,
           .lr = schedule_of(config).at(step),
           .grad_scale = done.clip(config) / done.losses.tokens});
    }
  Floats weights;
  for (const auto& param : now.model->params()) {
    const Floats values = to_floats(param->master());
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

TEST(ServedCompression, AsynchronousIsTheDefinitionOfItsSchedule) {
  for (const char* kind : kKinds)
    for (const int servers : {1, 3}) {
      Config config = compressed_servers(kind, servers == 1 ? "gpt2" : "llama", "adamw");
      const auto schedule = one_after_the_other(2, config.train.steps);
      const ServersObserved got =
          run_servers(config, {.workers = 2, .servers = servers, .consistency = Consistency::async},
                      {.replay = std::vector(static_cast<size_t>(servers), schedule)});
      EXPECT_EQ(got.outcome.weights, define_one_after_the_other(config)) << kind << servers;
      config.compression.error_feedback = false;
      EXPECT_NE(got.outcome.weights, define_one_after_the_other(config)) << kind << servers;
    }
}

TEST(ServedCompression, AsynchronousRunsAreRunAgainFromTheirSchedule) {
  for (const char* kind : kKinds)
    for (const Consistency consistency : {Consistency::async, Consistency::bounded}) {
      Config config = compressed_servers(kind, "gpt2", "adamw");
      config.compression.warmup_steps = 1;
      if (consistency == Consistency::bounded) {
        config.precision.compute = "f16";  // the first pushes overflow
        config.precision.loss_scale = 16777216.0;
      }
      const ServerLayout layout{.workers = 3, .servers = 2, .consistency = consistency, .staleness = 1};
      const ServersObserved first = run_servers(config, layout);
      const ServersObserved second = run_servers(config, layout, {.replay = first.schedules});
      EXPECT_EQ(second.outcome.weights, first.outcome.weights) << kind;
      for (const float weight : first.outcome.weights) ASSERT_TRUE(std::isfinite(weight)) << kind;
      EXPECT_EQ(second.schedules, first.schedules) << kind;
    }
}

// Of a worker: the codes of matrices, 4 bytes for every other element, and what is sent without compression, too.
TEST(ServedCompression, BytesAreThoseOfTheFormulas) {
  for (const char* kind : kKinds)
    for (const Consistency consistency : {Consistency::sync, Consistency::async})
      for (const int servers : {1, 2}) {
        const Config config = compressed_servers(kind, "gpt2", "adamw");
        const CompressionOptions options = compression_of(config);
        const ServersObserved observed =
            run_servers(config, {.workers = 2, .servers = servers, .consistency = consistency});
        const auto model = make_model(config.model);
        const Buckets buckets(model->weights(),
                              settings_of(config, {.workers = 2, .servers = servers}, {}).buckets());
        int64_t expected = 0;
        for (const Bucket& bucket : buckets.list)
          for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
            const Param& param = bucket.weights[slot]->param();
            const int64_t numel = param.numel();
            if (!is_compressed(param, options)) {
              expected += 4 * numel;
            } else {
              expected += (numel + 255) / 256 * (std::string(kind) == "bf16" ? 512 : 260);
            }
          }
        for (int worker = 0; worker < 2; ++worker)
          EXPECT_EQ(observed.traffic[static_cast<size_t>(worker)].of(Collective::send).bytes,
                    config.train.steps * (expected + 64 * servers + 2 * 8))
              << kind << " " << servers;
      }
}

}  // namespace
}  // namespace athanor::tests::served_compression_test
