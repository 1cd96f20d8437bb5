// A step as one line of plain text, for the log.
//
//   step 00010/400 | loss 5.1234 | en 5.01 zh 6.20 | norm 1.23 | lr 3.0e-04 | 1,234 tok/s | mfu 12.3 % | 0.83 s
//   valid 00010/400 | loss 5.0123 | en 4.98 zh 6.11
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/observe/metrics.h"

namespace athanor {

std::string step_line(const StepMetrics& metrics, int64_t total_steps);
std::string validation_line(const StepMetrics& metrics, int64_t total_steps);  // of a step that evaluated

}  // namespace athanor
