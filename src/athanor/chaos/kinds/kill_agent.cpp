// kill-agent: the process that does what is decided about the job is gone, and the master with it.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class KillAgent final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "kill-agent",
        .what = "SIGKILL to the agent of the job",
        .must =
            "the ranks train on as if nothing had happened: no step is done again, no process is another one",
        .control = "its journal is removed just before"};
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  void inject(JobHandle& job, const Draw&) const override { job.strike_agent(); }
  Expectation expectation() const override { return {.survivors = true, .no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
  void inject_unprotected(JobHandle& job, const Draw&) const override {
    job.strike_agent(SIGKILL, JobHandle::Journal::lost);
  }
};

}  // namespace

const Fault& kill_agent_fault() {
  static const KillAgent fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
