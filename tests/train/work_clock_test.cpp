#include "athanor/run/work_clock.h"

#include <gtest/gtest.h>

namespace athanor::tests::work_clock_test {
namespace {

TEST(WorkClock, CountsStepsAndWhatTheyWait) {
  WorkClock clock;
  clock.begin(100);
  clock.waited(30);
  clock.end(200);
  EXPECT_EQ(clock.busy_ns(), 70);
  EXPECT_EQ(clock.waited_ns(), 30);
  clock.waited(1000);  // an evaluation, or a save
  clock.begin(5000);
  clock.waited(1);
  clock.waited(2);
  clock.end(5010);
  EXPECT_EQ(clock.busy_ns(), 77);
  EXPECT_EQ(clock.waited_ns(), 33);
}

TEST(WorkClock, AnEndWithoutABeginCountsNothing) {
  WorkClock clock;
  clock.end(100);
  clock.begin(200);
  clock.end(210);
  clock.end(300);
  EXPECT_EQ(clock.busy_ns(), 10);
}

TEST(WorkClock, ThreadsThatWaitTogetherWaitNoLongerThanTheTimeThatPasses) {
  WorkClock clock;
  clock.begin(0);
  clock.waited(80);
  clock.waited(80);
  clock.end(100);
  EXPECT_EQ(clock.busy_ns(), 0);
  EXPECT_EQ(clock.waited_ns(), 100);
}

}  // namespace
}  // namespace athanor::tests::work_clock_test
