// What a trial asks of a rank happens once, on that rank, in a sum of gradients and nowhere else.
#include "athanor/chaos/fault_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faulty_world.h"
#include "athanor/comm/shm/thread.h"
#include "support/temporary_folder.h"

namespace athanor::tests::fault_plan_test {
namespace {

TEST(FaultPlan, IsTakenOnceByTheRankThatWasAskedInItsStep) {
  const TemporaryFolder folder;
  const std::string path = folder.path("plan");
  FaultPlan::create(path);
  FaultPlan trial(path), rank(path);
  EXPECT_FALSE(rank.take(1));
  trial.ask(1, 2);
  EXPECT_TRUE(trial.is_asked(1));
  EXPECT_FALSE(rank.take(1));
  rank.step_begins();
  EXPECT_FALSE(rank.take(0));
  EXPECT_TRUE(rank.take(1));
  EXPECT_FALSE(trial.is_asked(1));
  EXPECT_FALSE(rank.take(1));
  EXPECT_THROW(trial.ask(-1, 1), Error);
  EXPECT_THROW(FaultPlan(folder.path("none")), IoError);
  system_env().write_atomically(path, "short");
  EXPECT_THROW(FaultPlan{path}, Error);
}

TEST(FaultyWorld, GivesNanToOneSumOfGradients) {
  const TemporaryFolder folder;
  FaultPlan::create(folder.path("plan"));
  FaultPlan(folder.path("plan")).ask(1, 2);
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
