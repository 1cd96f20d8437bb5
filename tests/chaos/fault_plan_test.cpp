// What a trial asks of a rank happens once, on that rank, in a sum of gradients and nowhere else.
#include "athanor/chaos/fault_plan.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faulty_world.h"
#include "athanor/comm/call_mismatch.h"
#include "athanor/comm/shm/thread.h"
#include "support/temporary_folder.h"

namespace athanor::tests::fault_plan_test {
namespace {

using ::testing::HasSubstr;
using Act = PlannedFault::Act;

Call call_of(const char* name) {
  return {.collective = Collective::all_reduce, .dtype = Dtype::f32, .count = 2, .name = name};
}

TEST(FaultPlan, IsTakenOnceByTheRankThatWasAskedInItsStep) {
  const TemporaryFolder folder;
  const std::string path = folder.path("plan");
  FaultPlan::create(path);
  FaultPlan trial(path), rank(path), other(path);
  EXPECT_FALSE(rank.next_call(1, call_of("gradients 0")));
  trial.ask(1, {.act = Act::nan_gradient, .step = 2});
  EXPECT_TRUE(trial.is_asked(1));
  EXPECT_EQ(trial.taken_ns(1), 0);
  EXPECT_FALSE(rank.next_call(1, call_of("gradients 0")));
  EXPECT_FALSE(rank.next_call(1, call_of("losses")));
  EXPECT_FALSE(other.next_call(0, call_of("gradients 0")));
  EXPECT_FALSE(rank.next_call(1, call_of("norm")));
  EXPECT_TRUE(rank.next_call(1, call_of("gradients 0")));
  EXPECT_FALSE(trial.is_asked(1));
  EXPECT_GT(trial.taken_ns(1), 0);
  EXPECT_FALSE(rank.next_call(1, call_of("gradients 1")));
  EXPECT_THROW(trial.ask(-1, {}), Error);
  EXPECT_THROW(FaultPlan(folder.path("none")), IoError);
  system_env().write_atomically(path, "short");
  EXPECT_THROW(FaultPlan{path}, Error);
}

// Of four collectives a step, those from one sum of losses to the next; messages do not count.
TEST(FaultPlan, ReachesEachCollectiveOfAStep) {
  const TemporaryFolder folder;
  FaultPlan::create(folder.path("plan"));
  FaultPlan plan(folder.path("plan"));
  for (int which = 0; which < 4; ++which) {
    plan.ask(0, {.act = Act::skip, .where = (which + 0.5) / 4});
    std::vector<std::string> struck;
    for (int step = 0; step < 2; ++step) {
      if (step == 0) plan.ask(0, {.act = Act::skip, .step = 1'000'000});
      if (step == 1) plan.ask(0, {.act = Act::skip, .where = (which + 0.5) / 4});
      for (const char* name : {"losses", "gradients 0", "norm", "squares"}) {
        if (plan.next_call(0, call_of(name))) struck.emplace_back(name);
        Call message = call_of("activations");
        message.collective = Collective::send;
        EXPECT_FALSE(plan.next_call(0, message));
      }
    }
    const char* const names[] = {"losses", "gradients 0", "norm", "squares"};
    EXPECT_EQ(struck, std::vector<std::string>{names[which]});
  }
}

// What a rank does to one call of three ranks, and what the others get.
std::string outcome_of(Act act, int rank) {
  const TemporaryFolder folder;
  FaultPlan::create(folder.path("plan"));
  FaultPlan(folder.path("plan")).ask(1, {.act = act, .step = 2, .amount = 0.01});
  std::string said;
  run_ranks(make_thread_worlds(3), [&](World& real) {
    const std::unique_ptr<World> world = with_faults(real, std::make_shared<FaultPlan>(folder.path("plan")));
    std::string own = "nothing";
    try {
      for (int step = 0; step < 3; ++step)
        for (const char* name : {"gradients 0", "norm", "losses"}) {
          float values[2] = {1.0f, 2.0f};
          world->all().all_reduce(values, 2, Dtype::f32, name).wait();
          if (values[0] != 3.0f || values[1] != 6.0f) own = fmt::format("{} {}", name, step);
        }
    } catch (const CallMismatch& error) {
      own = error.what();
    }
    if (real.rank() == rank) said = own;
  });
  return said;
}

TEST(FaultyWorld, ACollectiveThatOneRankDoesNotMakeIsAMismatchOnAllRanks) {
  for (const Act act : {Act::skip, Act::reorder, Act::mismatch})
    for (const int rank : {0, 1, 2})
      EXPECT_THAT(outcome_of(act, rank), HasSubstr("do not make the same collective"))
          << static_cast<int>(act);
}

TEST(FaultyWorld, ADelayChangesNothingAndAFlippedBitOneRank) {
  for (const int rank : {0, 1, 2}) EXPECT_EQ(outcome_of(Act::delay, rank), "nothing");
  EXPECT_EQ(outcome_of(Act::flip_gradient, 0), "nothing");
  EXPECT_EQ(outcome_of(Act::flip_gradient, 1), "gradients 0 1");
}

TEST(FaultyWorld, GivesNanToOneSumOfGradients) {
  const TemporaryFolder folder;
  FaultPlan::create(folder.path("plan"));
  FaultPlan(folder.path("plan")).ask(1, {.act = Act::nan_gradient, .step = 2});
  run_ranks(make_thread_worlds(3), [&](World& real) {
    const std::unique_ptr<World> world = with_faults(real, std::make_shared<FaultPlan>(folder.path("plan")));
    const std::unique_ptr<Group> group = world->make_group({0, 1, 2}, "some");
    EXPECT_EQ(world->rank(), real.rank());
    const auto sum = [&](Group& of, const char* name) {
      float values[2] = {1.0f, 2.0f};
      of.all_reduce(values, 2, Dtype::f32, name).wait();
      EXPECT_EQ(values[1], 6.0f);
      return values[0];
    };
    EXPECT_EQ(sum(*group, "gradients 0"), 3.0f);
    EXPECT_EQ(sum(world->all(), "losses"), 3.0f);
    EXPECT_TRUE(std::isnan(sum(*group, "gradients 0")));
    EXPECT_EQ(sum(*group, "gradients 0"), 3.0f);
    EXPECT_EQ(sum(world->all(), "losses"), 3.0f);
    EXPECT_EQ(sum(world->all(), "gradients 1"), 3.0f);
  });
}

}  // namespace
}  // namespace athanor::tests::fault_plan_test
