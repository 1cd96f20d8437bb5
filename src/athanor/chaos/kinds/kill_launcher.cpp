// kill-launcher: the process that the user started is gone, or all three of the launcher's at once.
#include <csignal>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

class KillLauncher final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "kill-launcher",
            .what =
                "SIGKILL to the launcher, half of the time to its agent and master, too; then the same "
                "command again",
            .must =
                "the ranks save and end, nothing is left; the same command goes on to the bits of the "
                "undisturbed run",
            .control = "the run's checkpoints are removed before the same command goes on"};
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    if (draw.second < 0.5) {
      job.strike_master();
      job.strike_agent();
    }
    job.strike_launcher(SIGKILL);
    for (int rank = 0; rank < job.command().num_ranks; ++rank) job.wait_for_end_of(rank);
  }
  Expectation expectation() const override {
    return {.exit_code = -1, .goes_on = true, .leaves_sockets = true};
  }
  std::vector<std::string> control_settings() const override { return {}; }
  void spoil(const std::string& run_folder) const override {
    system_env().remove_all(join_path(run_folder, "checkpoints"));
  }
};

}  // namespace

const Fault& kill_launcher_fault() {
  static const KillLauncher fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
