// One trial: a fresh run of the job, a fault at the drawn instant, and what was seen of it.
//
//   const Undisturbed undisturbed = run_undisturbed(command);
//   const TrialResult result = run_trial(command, undisturbed, *faults[draw.fault], draw);
//   result.passed();
//
// The instant is a time of the undisturbed run, between its first and its last step. It is placed by the step that it
// falls into: so long after the line of that step was seen, or when the last step is done. So a trial that runs faster or
// slower than the undisturbed run is struck at the same place. All times are of the monotonic clock of this process, which
// learns of each line by inotify (run_watch.h).
//
// Errors: Error if the undisturbed run does not end well; IoError. What goes wrong in a trial is its result. Thread rule: one
// thread, which the jobs die with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/chaos/fault.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/judge.h"
#include "athanor/chaos/run_evidence.h"

namespace athanor::chaos {

struct Undisturbed {
  RunEvidence evidence{};
  std::vector<SeenStep> steps{};  // each when it was seen
  double seconds = 0.0;           // of all, from the start of the launcher to its end
  int64_t last_step() const { return steps.back().step; }
  double training_seconds() const;  // from the first step's end to the last one's
  double median_step_seconds() const;

  struct Place {
    int64_t step = 0;         // the last that was done
    int64_t offset_ns = 0;    // since then
    double at_seconds = 0.0;  // since the first step's end
  };
  Place place_of(double instant) const;  // [0, 1) of training_seconds()
};

RunEvidence evidence_of(const JobCommand& command);  // of its run, which has ended
Undisturbed run_undisturbed(const JobCommand& command);

// From a strike to the event that names it; none: there was none.
std::optional<double> named_after(const JobHandle& job, const Expectation& expected);

struct TrialResult {
  int64_t trial = 0;
  std::string fault{};
  bool is_control = false;  // with the protection off
  int num_ranks = 1;
  std::vector<int> ranks{};  // struck
  double at_seconds = 0.0;
  Seen seen{};
  std::vector<std::string> why{};  // what did not hold
  bool passed() const { return why.empty(); }
  bool bitwise() const { return seen.compared && seen.differences.empty(); }
};

// `command` names the run of the trial; it must not be there.
TrialResult run_trial(const JobCommand& command, const Undisturbed& undisturbed, const Fault& fault,
                      const Draw& draw, bool is_control = false);

}  // namespace athanor::chaos
