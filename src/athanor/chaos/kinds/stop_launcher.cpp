// stop-master, stop-agent: a process of the launcher stands still for a while, and comes back when another one may have taken
// its place.
#include <csignal>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/processes.h"

namespace athanor::chaos::kinds {
namespace {

constexpr double kLeastNs = 1e8;

class StopsOne : public Fault {
 public:
  explicit StopsOne(double most_ns) : most_ns_(most_ns) {}
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    const pid_t stopped = process_of(job);
    strike(job, JobHandle::Journal::kept);
    const auto for_ns = static_cast<int64_t>(kLeastNs + draw.second * (most_ns_ - kLeastNs));
    job.wait([] { return false; }, now_ns() + for_ns);
    // Nobody else has its number while the launcher has not reaped it.
    if (stopped > 1 && process_of(job) == stopped) kill(stopped, SIGCONT);
  }
  Expectation expectation() const override { return {.survivors = true, .no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
  void inject_unprotected(JobHandle& job, const Draw&) const override {
    strike(job, JobHandle::Journal::lost);
  }

 protected:
  static FaultText text_of(const char* name, const char* what) {
    return {.name = name,
            .what = what,
            .must =
                "the ranks train on as if nothing had happened: no step is done again, no process is another "
                "one, and what comes back late changes nothing",
            .control = "the journal is removed just before, and it does not come back"};
  }

 private:
  virtual pid_t process_of(const JobHandle& job) const = 0;
  virtual void strike(JobHandle& job, JobHandle::Journal journal) const = 0;

  double most_ns_;
};

class StopMaster final : public StopsOne {
 public:
  StopMaster() : StopsOne(3e9) {}
  FaultText text() const override {
    return text_of("stop-master", "SIGSTOP to the master of the job, and SIGCONT 0.1 to 3 s later");
  }

 private:
  pid_t process_of(const JobHandle& job) const override { return master_of(job.launcher_pid()); }
  void strike(JobHandle& job, JobHandle::Journal journal) const override {
    job.strike_master(SIGSTOP, journal);
  }
};

class StopAgent final : public StopsOne {
 public:
  StopAgent() : StopsOne(8e9) {}
  FaultText text() const override {
    return text_of("stop-agent", "SIGSTOP to the agent of the job, and SIGCONT 0.1 to 8 s later");
  }

 private:
  pid_t process_of(const JobHandle& job) const override { return agent_of(job.launcher_pid()); }
  void strike(JobHandle& job, JobHandle::Journal journal) const override {
    job.strike_agent(SIGSTOP, journal);
  }
};

}  // namespace

const Fault& stop_master_fault() {
  static const StopMaster fault;
  return fault;
}

const Fault& stop_agent_fault() {
  static const StopAgent fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
