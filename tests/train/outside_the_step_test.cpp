// Saving, and tokenizing at the start, are outside of the step and cannot harm it: at whichever call between ranks a rank
// is lost there, the steps that are done stand, and the run goes on to the same bits. (For evaluation: segments_test.cpp.)
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "athanor/text/trainers/trainer.h"
#include "support/power_env.h"
#include "train/planted_failures.h"
#include "train/whole_run.h"
#include "train/worlds_in_turn.h"

namespace athanor::tests::outside_the_step_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kFirstCallOfASave = "first tensor that is not finite";
constexpr const char* kLastCallBeforeTraining = "memory";

// A world whose all() counts its calls, one of which fails.
class CountedWorld final : public World {
 public:
  CountedWorld(World& real, CountedCalls& calls) : real_(real), all_(real.all(), real.rank(), calls) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int generation() const override { return real_.generation(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    return real_.make_group(std::move(members), std::move(name));
  }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  World& real_;
  CountedGroup all_;
};

// The run in a world whose calls are counted, and, where it fails there and there is another one, in that. `at_failure`: on
// rank 0.
TrainReport train_through(
    const WholeRun& run, CountedCalls& calls, const std::function<void()>& at_failure = [] {},
    size_t num_worlds = 2) {
  PowerEnv env(run.folder.path("runs/t"));  // its files need not wait for a disk
  WorldsInTurn worlds(run.ranks, num_worlds, [&](World& real, size_t generation) -> std::unique_ptr<World> {
    if (generation == 0) return std::make_unique<CountedWorld>(real, calls);
    if (real.rank() == 0) at_failure();
    return nullptr;
  });
  return run.train(env, [&](const Config& config, World& world, TrainIo& io) {
    return worlds.train(config, world.rank(), io);
  });
}

void expect_whole_checkpoints(const WholeRun& run) {
  for (const std::string& path : list_checkpoints(system_env(), run.file("checkpoints")))
    EXPECT_NO_THROW(Checkpoint::open(system_env(), path).verify()) << path;
}

struct Variant {
  const char* name;
  int ranks;
  std::function<void(Config& config)> change = [](Config&) {};
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

class Saving : public testing::TestWithParam<Variant> {};

TEST_P(Saving, AFailureAtEachCallHarmsNoStep) {
  const auto make = [] {
    auto run = std::make_unique<WholeRun>(GetParam().ranks);
    GetParam().change(run->config);
    return run;
  };
  const auto calm = make();
  CountedCalls calls(calm->ranks, {});
  train_through(*calm, calls);
  const History whole = calm->history();
  const std::vector<std::string> kept = system_env().list(calm->file("checkpoints"));
  int failures = 0;
  for (int rank = 0; rank < calm->ranks; ++rank) {
    const std::vector<std::string>& names = calls.of(rank).names;
    int64_t saves = 0;
    bool is_saving = false;
    for (int64_t call = 0; call < std::ssize(names); ++call) {
      const std::string& name = names[static_cast<size_t>(call)];
      if (name == kFirstCallOfASave) ++saves;
      is_saving = name == kFirstCallOfASave || (is_saving && name.starts_with("checkpoint"));
      if (!is_saving || (saves != 2 && saves != calm->config.train.steps)) continue;
      SCOPED_TRACE(fmt::format("rank {}, step {}, call {} '{}'", rank, saves, call, name));
      const auto run = make();
      CountedCalls broken(run->ranks, {.rank = rank, .call = call});
      const TrainReport report = train_through(*run, broken, [&] {
        EXPECT_EQ(run->metrics().back().step, saves) << "the step before the save is done";
        expect_whole_checkpoints(*run);
      });
      ASSERT_EQ(broken.failed_call(), name);
      ++failures;
      EXPECT_EQ(report.status, "finished");
      EXPECT_EQ(run->history(), whole);
      expect_whole_checkpoints(*run);
      EXPECT_THAT(system_env().list(run->file("checkpoints")), Each(Not(StartsWith("."))));
      EXPECT_EQ(system_env().list(run->file("checkpoints")).back(), kept.back());
    }
  }
  EXPECT_GT(failures, 20) << "or nothing is tried";
  RecordProperty("planted_failures", failures);
}

INSTANTIATE_TEST_SUITE_P(All, Saving,
                         testing::Values(Variant{"two_ranks", 2},
                                         Variant{"three_ranks_zero", 3,
                                                 [](Config& config) { config.parallel.zero_stage = 2; }},
                                         Variant{"two_ranks_tensor", 2,
                                                 [](Config& config) {
                                                   config.parallel.tp = 2;
                                                   config.checkpoint.keep = 1;
                                                 }}),
                         [](const auto& variant) { return std::string(variant.param.name); });

// A run of a text that it tokenizes at the start.
struct TextRun : WholeRun {
  explicit TextRun(int num_ranks) : WholeRun(num_ranks) {
    TokenizerTrainer trainer({.type = "char"});
    std::string text;
    const RandomStream stream(7, "text");
    for (uint64_t i = 0; i < 800; ++i) text += static_cast<char>('a' + stream.word(i, 0) % 26);
    trainer.add(text);
    system_env().write_atomically(folder.path("tokenizer.json"), trainer.finish());
    system_env().write_atomically(folder.path("text.txt"), text);
    config.data.tokenizer = folder.path("tokenizer.json");
    config.data.channels = {{.name = "text", .path = folder.path("text.txt")}};
  }
  std::string cache() const { return folder.path("runs/.cache"); }

  // Steps that an earlier process has done, whose cache is lost.
  void begin(int64_t steps) {
    system_env().remove_all(folder.path("runs"));
    if (steps == 0) return;
    const int64_t all = std::exchange(config.train.steps, steps);
    PowerEnv env(folder.path("runs/t"));
    train(env);
    config.train.steps = all;
    system_env().remove_all(cache());
  }
  // After a start that failed: what was done stands, no part of a cache lies there, and the next start makes the run whole.
  void expect_unharmed(int64_t steps, const History& whole) {
    const History before = steps > 0 ? history() : History{};
    EXPECT_EQ(std::ssize(before.steps), steps);
    EXPECT_TRUE(std::equal(before.steps.begin(), before.steps.end(), whole.steps.begin()));
    if (steps > 0) expect_whole_checkpoints(*this);
    if (system_env().exists(cache())) {
      EXPECT_THAT(system_env().list(cache()), Each(Not(HasSubstr(".tmp"))));
    }
    PowerEnv env(folder.path("runs/t"));
    EXPECT_EQ(train(env).status, "finished");
    EXPECT_EQ(history(), whole);
  }
};

class Tokenizing : public testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  const int ranks = std::get<0>(GetParam());
  const int64_t steps = std::get<1>(GetParam());
};

TEST_P(Tokenizing, AFailureAtEachCallOfTheStartHarmsNothing) {
  TextRun run(ranks);
  run.begin(0);
  PowerEnv calm(run.folder.path("runs/t"));
  run.train(calm);
  const History whole = run.history();
  run.begin(steps);
  CountedCalls calls(ranks, {});
  train_through(run, calls);
  EXPECT_EQ(run.history(), whole);
  int failures = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::string>& names = calls.of(rank).names;
    const auto last = std::find(names.begin(), names.end(), kLastCallBeforeTraining);
    ASSERT_NE(last, names.end());
    for (int64_t call = 0; call <= last - names.begin(); ++call, ++failures) {
      SCOPED_TRACE(fmt::format("rank {}, call {} '{}'", rank, call, names[static_cast<size_t>(call)]));
      run.begin(steps);
      CountedCalls broken(ranks, {.rank = rank, .call = call});
      EXPECT_THROW(train_through(
                       run, broken, [] {}, /*num_worlds=*/1),
                   Recoverable);
      ASSERT_FALSE(broken.failed_call().empty());
      run.expect_unharmed(steps, whole);
      run.begin(steps);
      CountedCalls again(ranks, {.rank = rank, .call = call});
      train_through(run, again);
      ASSERT_FALSE(again.failed_call().empty());
      EXPECT_EQ(run.history(), whole) << "the start goes on in another world";
    }
  }
  EXPECT_GT(failures, 10 * ranks) << "or nothing is tried";
  RecordProperty("planted_failures", failures);
}

// A rank that is lost in the midst of tokenizing, at each report of its progress.
TEST_P(Tokenizing, AFailureInItHarmsNothing) {
  TextRun run(ranks);
  run.begin(0);
  PowerEnv calm(run.folder.path("runs/t"));
  run.train(calm);
  const History whole = run.history();
  int lost = 0;
  for (bool is_lost = true; is_lost; ++lost) {
    SCOPED_TRACE(fmt::format("report {}", lost));
    run.begin(steps);
    std::atomic<int> reports = 0;
    PowerEnv env(run.folder.path("runs/t"));
    try {
      run.train(env, [&](const Config& config, World& world, TrainIo& io) {
        io.tokenizing = [&](const TokenizeState& state) {
          if (!state.waiting && reports++ == lost) throw PeerLost(world.rank(), "planted");
        };
        return athanor::run::train(config, world, io);
      });
      is_lost = false;
    } catch (const Recoverable&) {
      run.expect_unharmed(steps, whole);
    }
    EXPECT_EQ(reports > lost, is_lost) << "or the failure was not noticed";
  }
  EXPECT_GT(lost, 2) << "or nothing is tried";
}

INSTANTIATE_TEST_SUITE_P(All, Tokenizing,
                         testing::Values(std::tuple(2, int64_t{0}), std::tuple(3, int64_t{2})),
                         [](const auto& each) {
                           return fmt::format("{}_ranks_after_{}_steps", std::get<0>(each.param),
                                              std::get<1>(each.param));
                         });

}  // namespace
}  // namespace athanor::tests::outside_the_step_test
