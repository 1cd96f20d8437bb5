// clock: the wall clocks of one rank and of the launcher jump.
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/preload.h"

namespace athanor::chaos::kinds {
namespace {

constexpr const char* kModule = "athanor_clock.so";  // apps/preloaded/jumping_clock.cpp
constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kMostJumpNs = 24 * kHourNs;
constexpr int64_t kWaitNs = 300'000'000;  // for which the control has one rank wait for another

enum class Clock { wall, monotonic };

std::string clock_file(const std::string& run_folder) {
  return run_folder + ".clock";
}

// `rank`: -1 is the launcher.
void jump(const std::string& path, int rank, Clock clock, int64_t ns) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp((2 * (rank + 1) + (clock == Clock::wall ? 0 : 1)) * static_cast<std::streamoff>(sizeof(ns)));
  file.write(reinterpret_cast<const char*>(&ns), sizeof(ns));
}

class ClockJump final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "clock",
        .what =
            "The wall clocks of one rank and of the launcher jump by up to a day, one forward and one back",
        .must =
            "nothing is taken for a failure, no process ends, and the bits are those of the undisturbed run",
        .control = "the monotonic clock of the rank jumps by an hour while it waits for another rank"};
  }
  int least_ranks() const override { return 2; }
  std::string unavailable() const override { return preload_unavailable(kModule); }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  void prepare(JobCommand& command) const override {
    const std::string path = clock_file(command.run_folder());
    const auto num_clocks = 2 * (static_cast<size_t>(command.num_ranks) + 1);
    system_env().write_atomically(path, std::string(num_clocks * sizeof(int64_t), '\0'));
    command.environment.push_back("ATHANOR_CLOCK_FILE=" + path);
    preload(command, kModule);
  }
  void inject(JobHandle& job, const Draw& draw) const override {
    const std::string path = clock_file(job.command().run_folder());
    const int rank = draw.ranks.front();
    job.strike(draw.ranks, 0);
    if (!draw.is_control) {
      const auto ns = static_cast<int64_t>((2.0 * draw.second - 1.0) * static_cast<double>(kMostJumpNs));
      jump(path, rank, Clock::wall, ns);
      return jump(path, -1, Clock::wall, -ns);
    }
    const std::vector<int> other = {rank == 0 ? 1 : 0};
    job.signal(other, SIGSTOP);
    job.wait([] { return false; }, now_ns() + kWaitNs);
    jump(path, rank, Clock::monotonic, kHourNs);
    job.wait([] { return false; }, now_ns() + kWaitNs);
    job.signal(other, SIGCONT);
  }
  Expectation expectation() const override { return {.no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
};

}  // namespace

const Fault& clock_fault() {
  static const ClockJump fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
