// A kind of fault: what it does to a job, what must hold after it, and the negative control that shows that the check can
// fail. One file a kind; faults.h lists them all.
//
//   class Kill final : public Fault { ... };
//   fault.inject(job, draw);                       // at the instant; the job goes on by itself, or ends
//   judge(seen, fault.expectation());              // judge.h
//
// Thread rule: constant values.
#pragma once

#include <string>
#include <vector>

#include "athanor/chaos/draw.h"

namespace athanor::chaos {

class JobHandle;

struct FaultText {
  const char* name;
  const char* what;     // "kills one rank with SIGKILL"
  const char* must;     // "the job recovers by itself ..."
  const char* control;  // "launch.max_restarts = 0"
};

struct Expectation {
  int exit_code = 0;     // of the job that was struck
  bool goes_on = false;  // then the same command again, which must end with 0
  // Steps whose line was seen and that were done again. 1: the step in flight, whose line rank 0 has written while
  // another rank was in its update.
  int64_t most_redone_steps = 0;
  bool survivors = false;  // ranks that were not struck keep their processes
};

class Fault {
 public:
  virtual ~Fault() = default;
  virtual FaultText text() const = 0;
  virtual int least_ranks() const { return 1; }
  virtual std::vector<int> draw_ranks(Dice& dice, int num_ranks) const = 0;
  // A fault in the middle of a step: the rank carries it out itself, as it was asked to before the job began (fault_plan.h).
  virtual bool is_planned() const { return false; }
  virtual void inject(JobHandle& job, const Draw& draw) const = 0;
  virtual Expectation expectation() const = 0;

  // The negative control takes the protection off: by settings of the job, by another strike, or by what it does to the
  // run's folder before the same command goes on.
  virtual std::vector<std::string> control_settings() const { return {"launch.max_restarts=0"}; }
  virtual void inject_unprotected(JobHandle& job, const Draw& draw) const { inject(job, draw); }
  virtual void spoil(const std::string& /*run_folder*/) const {}
};

}  // namespace athanor::chaos
