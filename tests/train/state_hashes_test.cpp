// Replicas of a state compared: a bit that flips on one rank is found in every layout that has replicas, and the run goes back
// to what all agreed on.
#include "athanor/engine/replicas/state_hashes.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>

#include "athanor/base/error.h"
#include "train/faulty_group.h"
#include "train/held_slots.h"
#include "train/layout_run.h"
#include "train/layouts/layout_case.h"
#include "train/whole_run.h"

namespace athanor::tests::state_hashes_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

void flip(void* values) {
  uint32_t word;
  std::memcpy(&word, values, sizeof(word));
  word ^= 1u << 18;  // of the mantissa
  std::memcpy(values, &word, sizeof(word));
}

TEST(Minority, IsWhoDiffersFromMoreThanHalf) {
  EXPECT_THAT(minority_of({2, 5, 7}, {1, 9, 1}), ElementsAre(5));
  EXPECT_THAT(minority_of({0, 1, 2, 3, 4}, {8, 1, 1, 1, 9}), ElementsAre(0, 4));
  EXPECT_THAT(minority_of({0, 1}, {1, 2}), IsEmpty());
  EXPECT_THAT(minority_of({0, 1, 2, 3}, {1, 1, 2, 2}), IsEmpty());
  EXPECT_THAT(minority_of({0, 1, 2}, {1, 2, 3}), IsEmpty());
}

// `copy`: of weights, which the next step overwrites, so that only a comparison in between can see it. `moment_at_once`: before
// it has moved a weight.
enum class Where { nowhere, weight, moment, moment_at_once, gradient, copy };

struct Case {
  const char* name;
  std::string family;
  Axes axes;
  Where where;
  int victim;
  bool is_named = true;
  std::string mode = "off";  // of snapshots
  std::string tensor = {};   // whose name has this; "": the first one
  std::string compute = "f32";
};
void PrintTo(const Case& row, std::ostream* out) {
  *out << row.name;
}

constexpr int64_t kFlipped = 2, kCompared = 5;  // after these steps

Config config_of(const Case& row) {
  Config config = in_axes(uneven(row.family, "adamw"), row.axes);
  config.train.global_batch_size = 12;
  if (row.axes.ep > 1) config.model.num_experts = 6;
  config.snapshot.mode = row.mode;
  config.precision.compute = row.compute;
  return config;
}

void damage(const Training& training, const Case& row) {
  if (training.slots() != nullptr)
    static_cast<void>(training.slots()->steps());  // once no copy reads the state
  if (row.where == Where::copy) {
    const Tensor& values = training.model->params().front()->value();
    flip(values.raw());
    return;
  }
  for (const StateTensor& held : training.state()) {
    const bool is_moment = held.name.find("adam.m.") != std::string::npos;
    if (is_moment == (row.where == Where::moment || row.where == Where::moment_at_once) &&
        held.name.find(row.tensor) != std::string::npos)
      return flip(held.kept.tensor.raw());
  }
  FAIL() << "rank " << row.victim << " has no such tensor";
}

// What every rank finds after step kCompared, and how much it compares.
struct Found {
  std::vector<std::optional<StateDisagreement>> of_rank;
  std::vector<size_t> compared;
};

Found run_case(const Case& row) {
  const Config config = config_of(row);
  const auto ranks = static_cast<size_t>(ranks_of(config));
  Found found{.of_rank = std::vector<std::optional<StateDisagreement>>(ranks),
              .compared = std::vector<size_t>(ranks)};
  std::vector<std::atomic<int64_t>> done(ranks);
  std::mutex mutex;
  std::list<FaultyGroup> kept;
  LayoutHooks hooks;
  hooks.groups = [&](Groups& groups) {
    const int rank = groups.world().rank();
    if (row.where != Where::gradient || rank != row.victim) return;
    const std::lock_guard lock(mutex);
    groups.dense.sum = &kept.emplace_back(
        *groups.dense.sum,
        GroupFault{.call = "gradients", .change = [&done, rank](std::span<std::byte> data, size_t) {
                     if (done[static_cast<size_t>(rank)] == kFlipped) flip(data.data());
                   }});
  };
  hooks.after_step = [&](Training& training, TrainState& state, World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    done[rank] = state.step;
    const bool at_once = row.where == Where::copy || row.where == Where::moment_at_once;
    const bool now = state.step == (at_once ? kCompared : kFlipped);
    if (now && world.rank() == row.victim && row.where != Where::gradient && row.where != Where::nowhere)
      damage(training, row);
    if (state.step != kCompared) return;
    StateHashes hashes(training, world.all());
    found.of_rank[rank] = hashes.compare();
    found.compared[rank] = hashes.num_compared();
  };
  try {
    run_layout(config, hooks, kCompared);
  } catch (const Failure& error) {  // run_layout() compares replicas at its end, too
    EXPECT_NE(row.where, Where::nowhere) << error.what();
  }
  return found;
}

class Layouts : public testing::TestWithParam<Case> {};

TEST_P(Layouts, AFlippedBitIsFound) {
  const Case& row = GetParam();
  const Found found = run_case(row);
  for (const auto& each : found.of_rank) {
    ASSERT_TRUE(each.has_value());
    EXPECT_THAT(each->holders, Contains(row.victim));
    if (row.is_named)
      EXPECT_THAT(each->minority, AllOf(Contains(row.victim), SizeIs(testing::Le(row.axes.tp * row.axes.pp))))
          << each->text();
    else
      EXPECT_THAT(each->text(), HasSubstr("no majority"));
    EXPECT_EQ(each->text(), found.of_rank[0]->text());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Replicas, Layouts,
    testing::Values(
        Case{"dp2_weight", "llama", {.dp = 2}, Where::weight, 1, false},
        Case{"dp3_weight", "llama", {.dp = 3}, Where::weight, 0},
        Case{"dp3_moment", "gpt2", {.dp = 3}, Where::moment, 1},
        Case{"dp3_moment_at_once", "llama", {.dp = 3}, Where::moment_at_once, 1},
        Case{"dp3_gradient", "llama", {.dp = 3}, Where::gradient, 2},
        Case{"dp3_weight_bf16", "llama", {.dp = 3}, Where::weight, 2, true, "off", "", "bf16"},
        Case{"dp3_slots_weight", "llama", {.dp = 3}, Where::weight, 1, true, "slots"},
        Case{"dp3_slots_moment", "llama", {.dp = 3}, Where::moment, 2, true, "slots"},
        Case{"dp3_copy_moment", "llama", {.dp = 3}, Where::moment, 2, true, "copy"},
        Case{"zero1_copy_of_weights", "llama", {.dp = 3, .zero = 1}, Where::copy, 1, true, "off", "", "bf16"},
        Case{"zero1_shards_moment", "llama", {.dp = 6, .zero = 1, .shard = 2}, Where::moment, 3},
        Case{"zero3_shards_weight", "llama", {.dp = 6, .zero = 3, .shard = 2}, Where::weight, 4},
        Case{"tp2_dp3_weight", "llama", {.dp = 3, .tp = 2}, Where::weight, 5, true, "off", "attn"},
        Case{"tp2_dp3_moment", "llama", {.dp = 3, .tp = 2}, Where::moment, 2, true, "slots"},
        Case{"tp2_dp3_gradient", "gpt2", {.dp = 3, .tp = 2}, Where::gradient, 0},
        Case{"pp2_dp3_weight", "llama", {.dp = 3, .pp = 2}, Where::weight, 4},
        Case{"pp2_dp3_gradient", "llama", {.dp = 3, .pp = 2}, Where::gradient, 1},
        Case{"ep2_dp6_expert", "moe", {.dp = 6, .ep = 2}, Where::weight, 3, true, "off", "expert"},
        Case{"ep2_dp6_moment", "moe", {.dp = 6, .ep = 2}, Where::moment, 5, true, "off", "expert"},
        Case{"ep2_dp6_gradient", "moe", {.dp = 6, .ep = 2}, Where::gradient, 2}),
    [](const testing::TestParamInfo<Case>& row) { return row.param.name; });

class Undamaged : public testing::TestWithParam<Case> {};

// Replicas hold the same bits, and nothing is said. Where each value has one holder there is nothing to compare.
TEST_P(Undamaged, AgreeOnWhatTheyShare) {
  const Found found = run_case(GetParam());
  for (size_t rank = 0; rank < found.of_rank.size(); ++rank) {
    EXPECT_FALSE(found.of_rank[rank]) << found.of_rank[rank]->text();
    EXPECT_EQ(found.compared[rank] > 0, GetParam().is_named);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Replicas, Undamaged,
    testing::Values(Case{"dp3", "llama", {.dp = 3}, Where::nowhere, 0},
                    Case{"slots", "llama", {.dp = 3}, Where::nowhere, 0, true, "slots"},
                    Case{"zero1", "gpt2", {.dp = 3, .zero = 1}, Where::nowhere, 0, true, "slots"},
                    Case{"zero3", "llama", {.dp = 3, .zero = 3}, Where::nowhere, 0, false},
                    Case{"tp2_dp2", "gpt2", {.dp = 2, .tp = 2, .sp = true}, Where::nowhere, 0},
                    Case{"tp2", "llama", {.tp = 2}, Where::nowhere, 0},
                    Case{"cp2", "llama", {.cp = 2, .cp_method = "ring"}, Where::nowhere, 0},
                    Case{"pp2_dp2", "gpt2", {.dp = 2, .pp = 2}, Where::nowhere, 0},
                    Case{"ep2_dp6", "moe_bias", {.dp = 6, .ep = 2}, Where::nowhere, 0}),
    [](const testing::TestParamInfo<Case>& row) { return row.param.name; });

// A world all of whose groups have the fault, also those of a segment that runs again.
class DamagedWorld final : public World {
 public:
  DamagedWorld(World& real, GroupFault fault)
      : real_(real), fault_(fault), all_(real.all(), std::move(fault)) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int generation() const override { return real_.generation(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    kept_.push_back(real_.make_group(std::move(members), std::move(name)));
    return std::make_unique<FaultyGroup>(*kept_.back(), fault_);
  }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  World& real_;
  GroupFault fault_;
  FaultyGroup all_;
  std::list<std::unique_ptr<Group>> kept_;
};

// A run of three ranks; the gradients that rank 1 receives in some steps have a flipped bit.
struct Damaged : WholeRun {
  explicit Damaged(const char* setting, int64_t every = 2) : WholeRun(3) {
    config.train.steps = 7;
    config.guard.state_hash = setting;
    config.guard.state_hash_every = every;
    config.checkpoint.every_steps = 2;
  }
  struct Told {
    std::string shown, error;
  };
  // In the calls [first, last] of that name.
  Told train_with(const std::string& call, int first, int last, const std::function<void(std::byte*)>& harm,
                  HeldSlots* slots = nullptr) const {
    Told told;
    try {
      train(system_env(), [&](const Config& of_rank, World& world, TrainIo& io) {
        Console console{{.write = [&](std::string_view more) { told.shown += more; }}};
        if (world.rank() == 0) io.console = &console;
        if (slots != nullptr) io.snapshot_fd = slots->fds.at(static_cast<size_t>(world.rank()));
        int calls = 0;
        DamagedWorld hooked(world, {.call = call, .change = [&](std::span<std::byte> data, size_t) {
                                      ++calls;
                                      if (world.rank() == 1 && calls >= first && calls <= last)
                                        harm(data.data());
                                    }});
        return athanor::run::train(of_rank, hooked, io);
      });
    } catch (const std::exception& error) {
      told.error = error.what();
    }
    return told;
  }
  int64_t num_abandoned() const {
    const std::string path = file("metrics.abandoned.jsonl");
    return system_env().exists(path) ? std::ssize(read_metrics(system_env(), path)) : 0;
  }
};

History calm() {
  const Damaged run("off");
  run.train(system_env());
  return run.history();
}

// The calls of one bucket per parameter group differ in number; these lie in step 3 of all.
int calls_of_a_step() {
  int calls = 0;
  const Damaged run("off");
  run.train_with("gradients", 1, 1 << 20, [&](std::byte*) { ++calls; });
  return calls / static_cast<int>(run.config.train.steps);
}

TEST(StateHash, ActGoesBackToACheckpointOnWhichAllAgreed) {
  const Damaged run("act");
  const int at = 2 * calls_of_a_step() + 1;
  const auto told = run.train_with("gradients", at, at, [](std::byte* data) { flip(data); });
  EXPECT_EQ(told.error, "");
  EXPECT_THAT(told.shown, HasSubstr("step 4: '"));
  EXPECT_THAT(told.shown, HasSubstr("rank 1 differs from the others"));
  EXPECT_THAT(told.shown, HasSubstr("replicas agreed at step 2: steps 3 to 4 run again"));
  EXPECT_EQ(run.history(), calm());
  EXPECT_EQ(run.num_abandoned(), 2);
}

// Whatever is saved has been compared, also between the regular comparisons.
TEST(StateHash, ActSavesNoStateThatIsDamaged) {
  const Damaged run("act", 1000);
  const int at = 6 * calls_of_a_step() + 1;
  const auto told = run.train_with("gradients", at, at, [](std::byte* data) { flip(data); });
  EXPECT_EQ(told.error, "");
  EXPECT_THAT(told.shown, HasSubstr("step 7: '"));
  EXPECT_EQ(run.history(), calm());
}

TEST(StateHash, ActGoesBackInMemoryWhereThatIsWhole) {
  Damaged run("act", 1);
  run.config.snapshot.mode = "slots";
  run.config.checkpoint.every_steps = 0;
  const int at = 2 * calls_of_a_step() + 1;
  const auto told = run.train_with("gradients", at, at, [](std::byte* data) { flip(data); });
  EXPECT_EQ(told.error, "");
  EXPECT_THAT(told.shown, HasSubstr("replicas agreed at step 2: steps 3 to 3 run again"));
  EXPECT_EQ(run.history(), calm());
  EXPECT_EQ(run.num_abandoned(), 1);
}

// The slot that holds the step on which all agreed is damaged itself: then it is not where the run goes on.
TEST(StateHash, ActDoesNotGoBackToADamagedSlot) {
  Damaged run("act", 1);
  run.config.snapshot.mode = "slots";
  run.config.checkpoint.every_steps = 0;
  HeldSlots slots(3);
  const auto told = run.train_with(
      "losses", 3, 3,
      [&](std::byte*) {  // of step 3: the newest slot holds step 2
        const SlotReader slot = std::move(slots.read().at(1));
        EXPECT_EQ(slot.step(), 2);
        flip(const_cast<std::byte*>(slot.data(slot.tensors().front())));
      },
      &slots);
  EXPECT_EQ(told.error, "");
  EXPECT_THAT(told.shown, HasSubstr("replicas agreed at step 2"));
  EXPECT_EQ(run.history(), calm());
  EXPECT_EQ(run.num_abandoned(), 3);  // all of them: there is no checkpoint
}

TEST(StateHash, ActEndsTheRunWhereTheFaultComesAgain) {
  Damaged run("act");
  run.config.guard.max_rollbacks = 2;
  const auto told = run.train_with("gradients", 1, 1 << 20, [](std::byte* data) { flip(data); });
  EXPECT_THAT(told.error, HasSubstr("rank 1 differs from the others"));
  EXPECT_THAT(told.error, HasSubstr("guard.max_rollbacks = 2"));
  EXPECT_EQ(run.history().digest, "");  // nothing was saved
}

TEST(StateHash, WarnSaysItOnce) {
  const Damaged run("warn");
  const int at = 2 * calls_of_a_step() + 1;
  const auto told = run.train_with("gradients", at, at, [](std::byte* data) { flip(data); });
  EXPECT_EQ(told.error, "");
  const std::string line = "rank 1 differs from the others";
  const size_t first = told.shown.find(line);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(told.shown.find(line, first + 1), std::string::npos);
  EXPECT_NE(run.history(), calm());
}

TEST(StateHash, OffSaysNothing) {
  const Damaged run("off");
  const int at = 2 * calls_of_a_step() + 1;
  const auto told = run.train_with("gradients", at, at, [](std::byte* data) { flip(data); });
  EXPECT_EQ(told.error, "");
  EXPECT_THAT(told.shown, Not(HasSubstr("differs")));
  EXPECT_NE(run.history(), calm());
}

}  // namespace
}  // namespace athanor::tests::state_hashes_test
