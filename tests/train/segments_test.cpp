// A run whose groups break goes on in the same process, in another world, and is bitwise the run that was never
// disturbed: each step stands once in its metrics.
#include <gmock/gmock.h>

#include <memory>

#include "athanor/base/error.h"
#include "train/hooked_world.h"
#include "train/whole_run.h"
#include "train/worlds_in_turn.h"

namespace athanor::tests::segments_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// A rank that is lost in the call number `at` of those whose names begin with `call`, in one world.
struct Loss {
  int rank = 0;
  std::string call = {};
  int at = 0;
};

// A world for each loss and one more.
TrainReport train_through(const WholeRun& run, const std::vector<Loss>& losses) {
  WorldsInTurn worlds(
      run.ranks, losses.size() + 1, [&](World& real, size_t generation) -> std::unique_ptr<World> {
        if (generation == losses.size() || losses[generation].rank != real.rank()) return nullptr;
        const Loss& loss = losses[generation];
        return std::make_unique<HookedWorld>(
            real,
            GroupFault{.call = loss.call,
                       .change = [loss, calls = std::make_shared<int>(0)](std::span<std::byte>, size_t) {
                         if (++*calls == loss.at) throw PeerLost(loss.rank, "planted");
                       }});
      });
  return run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
    return worlds.train(config, world.rank(), io);
  });
}

struct Case {
  const char* name;
  std::vector<Loss> losses;
  std::vector<int64_t> generations;  // that did the steps
  std::function<void(Config& config)> change = [](Config&) {};
  std::vector<Decision> decisions = {};
};
void PrintTo(const Case& row, std::ostream* out) {
  *out << row.name;
}

class Segments : public testing::TestWithParam<Case> {};

TEST_P(Segments, GoOnToTheSameBits) {
  WholeRun calm(2), disturbed(2);
  GetParam().change(calm.config);
  GetParam().change(disturbed.config);
  calm.decisions = disturbed.decisions = GetParam().decisions;
  calm.train(system_env());
  const TrainReport report = train_through(disturbed, GetParam().losses);
  EXPECT_EQ(report.status, "finished");
  EXPECT_EQ(disturbed.history(), calm.history());
  EXPECT_EQ(report.decisions, GetParam().decisions);
  // Each step stands once, with the generation that did it.
  std::vector<int64_t> steps, generations;
  for (const StepMetrics& m : disturbed.metrics()) {
    steps.push_back(m.step);
    generations.push_back(m.generation);
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(generations, ElementsAreArray(GetParam().generations));
  EXPECT_FALSE(system_env().exists(disturbed.file("metrics.abandoned.jsonl")));
}

INSTANTIATE_TEST_SUITE_P(
    Losses, Segments,
    testing::Values(
        Case{"in_the_first_step", {{0, "gradients", 1}}, {1, 1, 1, 1}},
        Case{"in_the_second_step", {{1, "gradients", 12}}, {0, 1, 1, 1}},
        Case{"three_times", {{0, "gradients", 1}, {1, "gradients", 2}, {0, "gradients", 1}}, {3, 3, 3, 3}},
        Case{"zero",
             {{1, "gradients", 3}, {0, "gradients", 2}},
             {2, 2, 2, 2},
             [](Config& config) {
               config.parallel.zero_stage = 2;
               config.model.dropout = 0.1;
             }},
        Case{"of_a_later_phase",
             {{1, "gradients", 3}, {0, "gradients", 1}},
             {2, 2, 2, 2},
             [](Config& config) {
               config.model.max_position_embeddings = 12;
               config.phases = {{.name = "short", .steps = 2},
                                {.name = "long", .steps = 2, .settings = {{"data.seq_len", int64_t{12}}}}};
             }},
        Case{"around_a_skip",
             {{1, "gradients", 12}, {0, "validation", 1}},
             {0, 1, 2, 2},
             [](Config& config) { config.train.eval_every = 1; },
             {{2, SkipBatches{1}, "first"}, {4, SkipBatches{30}}}},
        // In the update, which no vote covers: the next segment starts from the slots of the step before.
        Case{"in_an_update",
             {{1, "momentum", 2}},
             {0, 1, 1, 1},
             [](Config& config) {
               config.snapshot.mode = "slots";
               config.compression.method = "onebit-adam";
               config.compression.warmup_steps = 1;
             },
             {{2, SkipBatches{1}}, {3, SkipBatches{2}}}},
        Case{"while_it_evaluates_at_the_end", {{1, "validation", 1}}, {0, 0, 0, 0}},
        Case{"while_it_evaluates",
             {{1, "validation", 1}},
             {0, 1, 1, 1},
             [](Config& config) { config.train.eval_every = 1; }}),
    [](const testing::TestParamInfo<Case>& row) { return row.param.name; });

TEST(Segments, WithoutAnotherWorldTheFailureEndsTheRun) {
  const WholeRun run(2);
  try {
    run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      HookedWorld hooked(world, {.call = "gradients", .change = [&](std::span<std::byte>, size_t) {
                                   if (world.rank() == 1) throw PeerLost(1, "planted");
                                 }});
      return athanor::run::train(config, hooked, io);
    });
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_THAT(error.what(), HasSubstr("planted"));
  }
}

}  // namespace
}  // namespace athanor::tests::segments_test
