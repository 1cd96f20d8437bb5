// scale: the operator takes a rank away while the job trains, and gives it back.
#include <string>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/program_output.h"

namespace athanor::chaos::kinds {
namespace {

constexpr int64_t kScalePatienceNs = 30'000'000'000;
constexpr double kLate = 0.6;  // of the training: it may end before the rank is back

class Scale final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "scale",
            .what = "athanor ctl RUN scale: a rank less, and when the job has gone on so, as many as before",
            .must =
                "the job goes on, the others keep their processes, and with parallel.reduce = \"tree\" the "
                "bits are "
                "those of the undisturbed run",
            .control = "launch.max_restarts = 0: the launcher refuses it"};
  }
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice&, int num_ranks) const override { return {num_ranks - 1}; }
  void inject(JobHandle& job, const Draw& draw) const override {
    const int num_ranks = job.command().num_ranks;
    job.strike(draw.ranks, 0);  // it ends, and another process comes
    for (const int size : {num_ranks - 1, num_ranks}) {
      job.note_strike();
      const std::string refused = scale(job, size);
      if (!refused.empty() && draw.instant < kLate) job.note(refused);
      if (!refused.empty()) return;
      const bool has_changed = job.wait([&] { return job.has_recovered(); }, now_ns() + kScalePatienceNs);
      if (!has_changed && draw.instant < kLate)
        return job.note("the job had ended before its size had changed");
    }
  }
  Expectation expectation() const override {
    return {.most_redone_steps = 1, .survivors = true, .no_failure = true};
  }

 private:
  // Why it was not done.
  static std::string scale(JobHandle& job, int size) {
    const JobCommand& command = job.command();
    try {
      program_output({command.program, "ctl", command.run_folder(), "scale", std::to_string(size)},
                     command.environment);
      return "";
    } catch (const Failure& error) {
      return error.what();
    }
  }
};

}  // namespace

const Fault& scale_fault() {
  static const Scale fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
