// kill-master: the process that decides what becomes of the job is gone.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class KillMaster final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "kill-master",
        .what = "SIGKILL to the master of the job",
        .must =
            "the ranks train on as if nothing had happened: no step is done again, no process is another one",
        .control = "its journal is removed just before"};
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  void inject(JobHandle& job, const Draw&) const override { job.strike_master(); }
  Expectation expectation() const override { return {.survivors = true, .no_failure = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
  void inject_unprotected(JobHandle& job, const Draw&) const override {
    job.strike_master(SIGKILL, JobHandle::Journal::lost);
  }
};

}  // namespace

const Fault& kill_master_fault() {
  static const KillMaster fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
