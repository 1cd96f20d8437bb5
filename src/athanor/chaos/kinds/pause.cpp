// pause: one rank is stopped and goes on again, sooner than the launcher kills such a rank.
#include <csignal>

#include "athanor/base/clock.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

constexpr double kLeastPause = 0.2, kMostPause = 4.0;

class Pause final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "pause",
        .what = "SIGSTOP to one rank, and SIGCONT 0.2 to 4 s later",
        .must =
            "nothing is taken for a failure, no process ends, and the bits are those of the undisturbed run",
        .control = "SIGCONT never comes"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    job.strike(draw.ranks, SIGSTOP);
    if (draw.is_control) return;
    const double seconds = kLeastPause + draw.second * (kMostPause - kLeastPause);
    job.wait([] { return false; }, now_ns() + static_cast<int64_t>(seconds * 1e9));
    job.signal(draw.ranks, SIGCONT);
  }
  Expectation expectation() const override { return {.no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
};

}  // namespace

const Fault& pause_fault() {
  static const Pause fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
