// Where the time of a step goes: the roofline (Williams, Waterman, Patterson, 2009) of what a Meter counted.
//
//   const Profile profile = make_profile(meter.lines(), steps, seconds, {peak_flops, copy_bytes});
//   std::cout << profile.table();
//
// The floor of a kernel is the time its operations take at the arithmetic ceiling or its bytes at the memory
// ceiling, whichever is longer; a kernel whose operands stay in a cache can be faster than its floor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/meter.h"

namespace athanor {

struct Ceilings {
  double flops_per_second = 0.0;  // of all threads together
  double bytes_per_second = 0.0;  // read and written by a copy
};

struct ProfileLine {
  std::string kernel, shape;
  double calls = 0.0;  // all of these are per step
  double milliseconds = 0.0;
  double floor_milliseconds = 0.0;
  Cost cost;
};

struct Profile {
  std::vector<ProfileLine> lines;    // the most time first
  double step_milliseconds = 0.0;    // wall time
  double kernel_milliseconds = 0.0;  // of all lines
  double floor_milliseconds = 0.0;
  Ceilings ceilings;

  std::string table() const;  // for people
};

Profile make_profile(const std::vector<Meter::Line>& lines, int64_t steps, double seconds,
                     const Ceilings& ceilings);

}  // namespace athanor
