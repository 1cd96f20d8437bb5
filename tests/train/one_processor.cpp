// Keeps a test on the processor it was started on. These are small trainings of many threads that wait for each other
// all the time: on one processor, with the next test on another, they need two thirds of the time that they need on
// both. Where threads meet for real is seen in comm and apps.
#include <gtest/gtest.h>
#include <sched.h>

namespace athanor::tests {
namespace {

class OneProcessor : public testing::Environment {
 public:
  void SetUp() override {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);  // where it is not allowed, all the same but slower
  }
};

[[maybe_unused]] const testing::Environment* const one_processor =
    testing::AddGlobalTestEnvironment(new OneProcessor);

}  // namespace
}  // namespace athanor::tests
