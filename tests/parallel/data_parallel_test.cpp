// What DataParallel refuses: options and calls that no config makes, said by name instead of done wrong. What it
// computes is tested with whole trainings, tests/train.
#include "athanor/parallel/data/data_parallel.h"
#include "athanor/parallel/compression/compressed_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/comm/shm/thread.h"
#include "support/engine.h"

namespace athanor::tests::data_parallel_test {
namespace {

using ::testing::HasSubstr;

// A matrix that all ranks have, and a stack of experts that is shared out over "ep".
struct Parameters {
  Parameters() {
    for (Param* param : {&dense, &experts}) weights.push_back(&param->add_use("use"));
    experts.shard({.dim = 0, .axis = "ep", .rank = 0, .size = 2});
  }
  Param dense{"dense", {8, 8}, Init::zeros()}, experts{"experts", {2, 8, 8}, Init::zeros()};
  std::vector<Weight*> weights;
};

// The message of the Error that `call` of a DataParallel of two ranks ends with, or "".
std::string refusal_of_options(const DataParallelOptions& options,
                               const std::function<void(DataParallel&)>& call = {}, int ranks = 2,
                               int parts = 1, std::optional<GradientRanks> experts = {}) {
  std::string message;
  run_ranks(make_thread_groups(ranks), [&](Group& group) {
    Engine engine;
    Parameters parameters;
    try {
      DataParallel parallel(parameters.weights,
                            {.dense = {.sum = &group, .parts = parts}, .experts = experts}, engine.arena,
                            options);
      for (Param* param : {&parameters.dense, &parameters.experts})
        param->allocate(engine.arena, Dtype::f32, true);
      parallel.allocate();
      if (call) call(parallel);
    } catch (const Error& error) {
      if (group.rank() == 0) message = error.what();
    }
  });
  return message;
}

TEST(DataParallel, RefusesOptionsThatDoNotGoTogether) {
  EXPECT_EQ(refusal_of_options({}), "");
  EXPECT_THAT(refusal_of_options({.stage = 4}), HasSubstr("got ZeRO stage 4, expected 0 to 3"));
  EXPECT_THAT(refusal_of_options({.stage = -1}), HasSubstr("got ZeRO stage -1"));
  const ExchangeMaker int8 = compressed_exchange({.kind = Compression::int8});
  for (const int stage : {1, 2, 3}) EXPECT_EQ(refusal_of_options({.stage = stage, .exchange = int8}), "");
  for (const Compression kind : {Compression::topk, Compression::powersgd, Compression::onebit_adam}) {
    const ExchangeMaker whole = compressed_exchange({.kind = kind});
    for (const int stage : {0, 1}) EXPECT_EQ(refusal_of_options({.stage = stage, .exchange = whole}), "");
    for (const int stage : {2, 3})
      EXPECT_THAT(refusal_of_options({.stage = stage, .exchange = whole}),
                  HasSubstr("got a compression method that needs unsharded gradients with ZeRO stage " +
                            std::to_string(stage) + ", expected bf16, int8 or none"));
  }
  EXPECT_THAT(refusal_of_options({.reduce = Reduce::tree, .exchange = int8}),
              HasSubstr("got compressed gradients with sums along the tree"));
  EXPECT_THAT(refusal_of_options({}, {}, 3, 2), HasSubstr("got 2 parts of a micro-batch in a group of 3"));
  EXPECT_THAT(refusal_of_options({}, {}, 2, 0), HasSubstr("got 0 parts of a micro-batch"));
}

TEST(DataParallel, HybridShardsAreThoseOfAllRanks) {
  run_ranks(make_thread_worlds(4), [&](World& world) {
    const int first = world.rank() / 2 * 2;
    const auto inner = world.make_group({first, first + 1}, "shards"), alone = make_single_group();
    const auto refusal = [&](Group& replicate, int stage) -> std::string {
      Engine engine;
      Parameters parameters;
      try {
        const GradientRanks ranks{.sum = &world.all(), .shard = inner.get(), .replicate = &replicate};
        DataParallel parallel(parameters.weights, {.dense = ranks}, engine.arena, {.stage = stage});
        return "";
      } catch (const Error& error) {
        return error.what();
      }
    };
    EXPECT_THAT(refusal(*alone, 1), HasSubstr("hybrid sharding: got 1 groups of 2 ranks"))
        << "one group of two shards for four ranks";
    const auto across = world.make_group({world.rank() % 2, world.rank() % 2 + 2}, "replicas");
    EXPECT_EQ(refusal(*across, 1), "");
    EXPECT_THAT(refusal(*across, 0),
                HasSubstr("got hybrid sharding of ZeRO stage 0, expected stages 1 to 3"));
  });
}

TEST(DataParallel, RefusesMicroBatchesThatCannotBeSharedOut) {
  const auto step = [](int64_t micro_batches) {
    return [micro_batches](DataParallel& parallel) {
      const std::vector<int64_t> own = parallel.micro_batches_of_step(micro_batches);
      parallel.begin_step({micro_batches});
    };
  };
  EXPECT_EQ(refusal_of_options({}, step(2)), "");
  EXPECT_THAT(refusal_of_options({}, step(1)),
              HasSubstr("got 2 ranks for 1 micro-batches in a step, expected at most 1"));
  EXPECT_THAT(refusal_of_options({.num_step_parts = 2}, step(3)),
              HasSubstr("got 4 ranks for 3 micro-batches"));
  const auto shares = [](const std::vector<int64_t>& counts) {
    return [counts](DataParallel& parallel) {
      parallel.share_micro_batches(counts);
      parallel.begin_step({4});
    };
  };
  EXPECT_EQ(refusal_of_options({.stage = 1}, shares({3, 1})), "");
  EXPECT_THAT(refusal_of_options({}, shares({2, 1})),
              HasSubstr("got numbers of micro-batches for 2 ranks, expected 4 micro-batches"));
  EXPECT_THAT(refusal_of_options({}, shares({2, 1, 1})),
              HasSubstr("got numbers of micro-batches for 3 ranks, expected 4"));
  EXPECT_THAT(refusal_of_options({.stage = 2}, shares({3, 1})),
              HasSubstr("got numbers of micro-batches for 2 ranks with sharded gradients"));
  const auto one_section = [](const Weight&) { return 0; };  // as in a pipeline
  EXPECT_EQ(refusal_of_options({.stage = 2}, step(3)), "");
  EXPECT_THAT(refusal_of_options({.stage = 2, .section = one_section}, step(3)),
              HasSubstr("got 3 micro-batches for 2 ranks of a pipeline"));
}

TEST(DataParallel, RanksThatShareExpertsHaveEquallyManyMicroBatches) {
  const auto alone = make_thread_groups(1);
  GradientRanks apart{.sum = alone[0].get(), .parts = 0};
  const auto refusal = [&](int replica_groups, const std::function<void(DataParallel&)>& call) {
    return refusal_of_options({.num_step_parts = replica_groups}, call, 2, 1, apart);
  };
  const auto begin = [](int64_t micro_batches) {
    return [micro_batches](DataParallel& parallel) { parallel.begin_step({micro_batches}); };
  };
  // A rank each, since the group of its experts is its own.
  EXPECT_THAT(refusal(1, begin(3)), HasSubstr("got 3 micro-batches for 2 ranks, expected as many on each"));
  EXPECT_THAT(refusal(2, begin(6)), HasSubstr("got 3 micro-batches for 2 ranks, expected as many on each"));
  EXPECT_EQ(refusal(2, begin(8)), "");
  EXPECT_THAT(refusal(1,
                      [](DataParallel& parallel) {
                        parallel.share_micro_batches({3, 1});
                      }),
              HasSubstr("got unequal numbers of micro-batches with an ep group over several of them"));
  // Of one part of the same micro-batches, which one rank alone has not.
  apart.parts = 1;
  EXPECT_THAT(refusal(1, begin(3)),
              HasSubstr("got an ep group whose ranks have different micro-batches, expected 1 consecutive "
                        "ranks with the same ones"));
}

// Two ranks compute one micro-batch, each its tokens; of everything else but experts both have the whole gradient.
TEST(DataParallel, ExpertsAreSummedOverMoreRanksWithTheSameShares) {
  for (const int stage : {0, 1})
    for (const Reduce reduce : {Reduce::fast, Reduce::tree})
      run_ranks(make_thread_worlds(4), [&](World& world) {
        Engine engine;
        Parameters parameters;
        const int place = world.rank() % 2;
        const auto others = world.make_group({place, place + 2}, "micro-batches");
        DataParallel parallel(
            parameters.weights,
            {.dense = {.sum = others.get()}, .experts = GradientRanks{.sum = &world.all(), .parts = 2}},
            engine.arena, {.reduce = reduce, .stage = stage});
        for (Param* param : {&parameters.dense, &parameters.experts})
          param->allocate(engine.arena, Dtype::f32, true);
        parallel.allocate();
        parallel.share_micro_batches({2, 1});
        parallel.begin_step({3});
        const std::vector<int64_t> own = parallel.micro_batches_of_step(3);
        for (size_t m = 0; m < own.size(); ++m)
          for (Weight* weight : {parameters.weights[1], parameters.weights[0]}) {
            const bool is_expert = weight == parameters.weights[1];
            Tensor& slot = weight->grad();
            const float addend = !is_expert ? 1.0f : place == 0 ? 10.0f : 100.0f;
            for (int64_t i = 0; i < slot.numel(); ++i)
              slot.data<float>()[i] += addend * static_cast<float>(own[m] + 1);
            weight->grad_ready(static_cast<int64_t>(m));
          }
        parallel.end_micro_batch();
        parallel.finish();
        for (Param* param : {&parameters.dense, &parameters.experts})
          for (const float sum : to_floats(parallel.grad(*param)))
            EXPECT_EQ(sum, param == &parameters.dense ? 6.0f : 660.0f) << param->name() << " zero " << stage;
      });
}

// A matrix of whole norm blocks, one that is not, and a table with two uses.
struct Norms {
  Norms() {
    for (Param* param : {&table, &matrix, &vector}) weights.push_back(&param->add_use("first"));
    weights.push_back(&table.add_use("second"));
  }
  std::vector<std::unique_ptr<Param>> take() {  // as models own them
    std::vector<std::unique_ptr<Param>> params;
    for (Param* param : {&table, &matrix, &vector}) params.emplace_back(param);
    return params;
  }
  Param &table = *new Param("table", {64, 32}, Init::zeros()),
        &matrix = *new Param("matrix", {96, 256}, Init::zeros()),
        &vector = *new Param("vector", {100}, Init::zeros());
  std::vector<Weight*> weights;
};

// Norms are those of one pass over the sums, as they are when it comes to them. Returns those of the first step.
std::vector<double> check_norms(Group& group, const DataParallelOptions& options, double bytes_read) {
  constexpr int64_t kMicroBatches = 5;
  Engine engine;
  Norms norms;
  const std::vector<std::unique_ptr<Param>> params = norms.take();
  DataParallel parallel(norms.weights, {.dense = {.sum = &group}}, engine.arena, options);
  for (const auto& param : params) param->allocate(engine.arena, Dtype::f32, true);
  parallel.allocate();
  Meter meter;
  std::vector<double> of_first;
  for (int step = 0; step < 3; ++step) {
    parallel.begin_step({kMicroBatches});
    const std::vector<int64_t> own = parallel.micro_batches_of_step(kMicroBatches);
    for (size_t m = 0; m < own.size(); ++m)
      for (auto weight = norms.weights.rbegin(); weight != norms.weights.rend(); ++weight) {
        const std::string name = (*weight)->use() + std::to_string(100 * step + own[m]);
        const Tensor gradient = engine.random((*weight)->param().shape(), name);
        kernels_of(gradient).elementwise.accumulate(*engine.queue, (*weight)->grad(), gradient);
        (*weight)->grad_ready(static_cast<int64_t>(m));
      }
    parallel.end_micro_batch();
    parallel.finish();
    if (step == 2) {  // what is changed afterwards has other squares
      Tensor changed = parallel.grad(norms.matrix);
      kernels_of(changed).elementwise.scale(*engine.queue, changed, 3.0f);
      parallel.keep_grad(norms.matrix, changed);
    }
    meter.clear();
    engine.queue->set_meter(&meter);
    const std::vector<double> sums = parallel.sum_squares(params);
    engine.queue->set_meter(nullptr);
    double read = 0.0;
    for (const Meter::Line& line : meter.lines())
      read += line.kernel == "sum_squares" ? line.cost.bytes : 0.0;
    EXPECT_EQ(read, bytes_read) << "step " << step << ", ZeRO " << options.stage;
    for (size_t i = 0; i < params.size() && options.stage == 0; ++i) {
      double expected = 0.0;
      const Tensor& sum = parallel.grad(*params[i]);
      kernels_of(sum).elementwise.sum_squares(*engine.queue, {&sum, 1}, {&expected, 1});
      EXPECT_EQ(sums[i], expected) << params[i]->name() << " in step " << step;
    }
    if (step == 0) of_first = sums;
  }
  return of_first;
}

TEST(DataParallel, NormsAreOnePassOverTheSums) {
  constexpr double kTable = 64 * 32 * 4, kMatrix = 96 * 256 * 4, kVector = 100 * 4;
  for (const Reduce reduce : {Reduce::fast, Reduce::tree}) {
    run_ranks(make_thread_groups(2), [&](Group& group) {
      const auto whole = check_norms(group, {.reduce = reduce, .stage = 0}, kTable + kMatrix + kVector);
      const auto shards = check_norms(group, {.reduce = reduce, .stage = 1},
                                      (kTable + kMatrix) / 2 + (group.rank() == 0 ? kVector : 0));
      EXPECT_EQ(whole, shards);
    });
    check_norms(*make_single_group(), {.reduce = reduce}, kTable + kMatrix + kVector);
  }
}

}  // namespace
}  // namespace athanor::tests::data_parallel_test
