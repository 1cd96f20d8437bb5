// How fast a rank gets at its memory.
//
//   const double gb_per_s = measure_memory();
//
// Commits 32 MiB and copies one half of them into the other, piece by piece, for about 5 ms; the median counts, of bytes that
// are copied. Errors: IoError (ENOMEM) with the limit of the process, where there is one. Thread rule: any thread.
#pragma once

#include "athanor/base/namespaces.h"

namespace athanor::launch::warm_up {

double measure_memory();

}  // namespace athanor::launch::warm_up
