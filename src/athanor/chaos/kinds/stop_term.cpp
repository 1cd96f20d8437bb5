// stop-term: the launcher is asked to end, as a scheduler does before it takes the machine away.
#include <csignal>

#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::chaos::kinds {
namespace {

class StopTerm final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "stop-term",
            .what = "SIGTERM to the launcher; then the same command again",
            .must =
                "the job saves and ends with exit code 75; the same command goes on to the bits of the "
                "undisturbed run",
            .control = "the run's checkpoints are removed before the same command goes on"};
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  void inject(JobHandle& job, const Draw&) const override { job.strike_launcher(SIGTERM); }
  Expectation expectation() const override {
    return {.exit_code = launch::kInterruptedExitCode, .goes_on = true};
  }
  std::vector<std::string> control_settings() const override { return {}; }
  void spoil(const std::string& run_folder) const override {
    system_env().remove_all(join_path(run_folder, "checkpoints"));
  }
};

}  // namespace

const Fault& stop_term_fault() {
  static const StopTerm fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
