// Monotonic time. Nothing in the library decides by the wall clock; it only stamps logs and file names.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

int64_t now_ns();       // monotonic, nanoseconds
double now_seconds();   // monotonic, seconds
double wall_seconds();  // since 1970, for stamps only

// Seconds since the kernel started this process (0.01 s resolution): what a user waits for.
double process_age_seconds();

}  // namespace athanor::base
