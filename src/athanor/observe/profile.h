// Profiles a training step: the time of its parts, and a roofline of its kernels (Williams, Waterman, Patterson, 2009)
// from the counts of a Meter.
//
//   Profiler profiler(&trace);                    // the trace (may be null) gets a span per call of a kernel
//   queue.set_meter(&profiler.meter);
//   profiler.add_step(seconds, {.forward = 0.1, .backward = 0.2});              // after every step
//   profiler.ceilings = {peak_flops, copy_bytes};
//   std::cout << profiler.profile().table();
//
// The floor (lower bound) of a kernel's time is the longer of: its FLOPs at the arithmetic ceiling, its bytes at the
// memory ceiling. "of ceiling" in the table is this bound over the measured time. A kernel whose operands stay in a
// cache can be faster than its bound. Thread rule: as for the Meter, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/meter.h"

namespace athanor::observe {

struct Ceilings {
  double flops_per_second = 0.0;  // of all threads together
  double bytes_per_second = 0.0;  // read and written by a copy
};

// The parts of a step. Their sum is less than the step: the rest is spent between them.
struct StepParts {
  double data = 0.0, forward = 0.0, backward = 0.0, comm = 0.0, update = 0.0;
};

struct ProfileLine {
  std::string kernel, shape;
  double calls = 0.0;  // per step, like the members below
  double milliseconds = 0.0;
  double floor_milliseconds = 0.0;
  Cost cost;
};

struct Profile {
  std::vector<ProfileLine> lines;  // the most time first
  int64_t steps = 0;
  double step_milliseconds = 0.0;    // wall time, per step like the members below
  double kernel_milliseconds = 0.0;  // of all lines
  double floor_milliseconds = 0.0;
  StepParts milliseconds;
  Ceilings ceilings;

  std::string table() const;    // for people: 100 columns, kernels below 0.5 % in one line
  std::string to_json() const;  // everything
};

// Collects the counts and times of a training loop; the loop's owner fills it.
struct Profiler {
  explicit Profiler(Trace* trace = nullptr) : meter(trace) {}
  void add_step(double seconds, const StepParts& seconds_of);
  void clear();  // after a step that only warms up
  Profile profile() const;

  Meter meter;
  Ceilings ceilings;

 private:
  int64_t steps_ = 0;
  double seconds_ = 0.0;
  StepParts parts_;
};

}  // namespace athanor::observe
