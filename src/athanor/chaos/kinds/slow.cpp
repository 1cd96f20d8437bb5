// slow: one rank runs half of the time only, so that its steps take twice as long and the others wait for it.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "athanor/base/clock.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

constexpr int64_t kHalfPeriodNs = 10'000'000;
constexpr int64_t kUsualNs = 2'500'000'000;  // of steps, from which the launcher knows what is usual
constexpr int64_t kSlowNs = 6'000'000'000;   // if it is not named
// Law 8's limit and a second. Steps are shorter than half a second.
constexpr double kNamedSeconds = 3.0;

class Slow final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "slow",
        .what = "SIGSTOP and SIGCONT to one rank by turns, so that it runs half of the time",
        .must =
            "named within three seconds as slow; nothing is taken for a failure, no process ends, and the "
            "bits are those of the undisturbed run",
        .control = "launch.slow = \"off\""};
  }
  int least_ranks() const override { return 2; }
  double latest() const override { return 0.5; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    const auto never = [] { return false; };
    job.wait(never, job.watch().step_ns(1) + kUsualNs);
    job.strike(draw.ranks, SIGSTOP);
    const int64_t end_ns = job.struck()->first_ns + kSlowNs;
    while (job.runs() && now_ns() < end_ns && named(job) == nullptr) {
      job.signal(draw.ranks, SIGSTOP);
      job.wait(never, now_ns() + kHalfPeriodNs);
      job.signal(draw.ranks, SIGCONT);
      job.wait([&] { return named(job) != nullptr; }, now_ns() + kHalfPeriodNs);
    }
    if (const SeenEvent* event = named(job); event != nullptr && event->event["rank"] != draw.ranks.front())
      job.note(
          fmt::format("rank {} was named, expected {}", event->event["rank"].dump(), draw.ranks.front()));
    if (!job.runs() && now_ns() < job.struck()->first_ns + static_cast<int64_t>(kNamedSeconds * 1e9))
      job.note("the run ended too soon to be named: it has to train for five seconds or more");
  }
  Expectation expectation() const override {
    return {.survivors = true,
            .no_failure = true,
            .named_by = "slow",
            .named_as = "is slow",
            .named_within_seconds = kNamedSeconds};
  }
  std::vector<std::string> control_settings() const override { return {"launch.slow=off"}; }

 private:
  static const SeenEvent* named(const JobHandle& job) {
    const auto& events = job.watch().events();
    const auto found =
        std::find_if(events.begin() + static_cast<std::ptrdiff_t>(job.struck()->num_events), events.end(),
                     [](const SeenEvent& seen) { return seen.kind() == "slow"; });
    return found == events.end() ? nullptr : &*found;
  }
};

}  // namespace

const Fault& slow_fault() {
  static const Slow fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
