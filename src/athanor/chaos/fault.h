// A kind of fault: what it does to a job, what must hold after it, and the negative control that shows that the check can
// fail. One file a kind; faults.h lists them all.
//
//   class Kill final : public Fault { ... };
//   fault.inject(job, draw);                       // at the instant; the job goes on by itself, or ends
//   judge(seen, fault.expectation());              // judge.h
//
// Thread rule: constant values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "athanor/chaos/draw.h"
#include "athanor/chaos/fault_plan.h"

namespace athanor::chaos {

class JobHandle;
struct JobCommand;

struct FaultText {
  const char* name;
  const char* what;     // "kills one rank with SIGKILL"
  const char* must;     // "the job recovers by itself ..."
  const char* control;  // "launch.max_restarts = 0"
};

struct Expectation {
  int exit_code = 0;     // of the job that was struck
  bool goes_on = false;  // then the same command again, which must end with 0
  bool leaves_sockets =
      false;  // of the job that was struck: the folders stay until the next launch removes them
  // Steps whose line was seen and that were done again. 1: the step in flight, whose line rank 0 has written while
  // another rank was in its update.
  int64_t most_redone_steps = 0;
  bool survivors = false;   // ranks that were not struck keep their processes
  bool no_failure = false;  // the launcher takes nothing for a failure, and no process is started again
  // The event that names what was struck, and what its `cause` says; "": one of a failure or of a request to stop.
  const char* named_by = "";
  const char* named_as = "";
  double named_within_seconds = 0.0;  // 0: at any time, or never
};

constexpr int64_t kAnySteps = std::numeric_limits<int64_t>::max();

class Fault {
 public:
  virtual ~Fault() = default;
  virtual FaultText text() const = 0;
  virtual int least_ranks() const { return 1; }
  virtual std::string unavailable() const { return ""; }  // why this machine cannot do it; "": it can
  virtual double latest() const { return 1.0; }           // instant of the undisturbed run, [0, 1]
  virtual std::vector<int> draw_ranks(Dice& dice, int num_ranks) const = 0;
  // A fault in the middle of a step: the rank carries it out itself, as it was asked to before the job began (fault_plan.h).
  // Its step is the trial's.
  virtual std::optional<PlannedFault> plan(const Draw& /*draw*/) const { return std::nullopt; }
  virtual void prepare(JobCommand& /*command*/) const {}  // before the job starts
  virtual void inject(JobHandle& job, const Draw& draw) const = 0;
  virtual Expectation expectation() const = 0;

  virtual std::vector<std::string> settings() const { return {}; }  // of the job, in each trial

  // The negative control takes the protection off: by settings of the job, by another strike, or by what it does to the
  // run's folder before the same command goes on.
  virtual std::vector<std::string> control_settings() const { return {"launch.max_restarts=0"}; }
  virtual void inject_unprotected(JobHandle& job, const Draw& draw) const { inject(job, draw); }
  // What happens to the run's folder before the same command goes on, in each trial.
  virtual void before_again(const std::string& /*run_folder*/, const Draw& /*draw*/) const {}
  virtual void spoil(const std::string& /*run_folder*/) const {}
};

}  // namespace athanor::chaos
