// Whether a rank can write where its run keeps what it writes, and how fast.
//
//   const double mb_per_s = measure_disk(env, "runs/first", rank);
//
// A file of 1 MiB, of the rank's own, is written, synced, read again, compared and removed: in the folder, or, where there is none
// yet, in the nearest one that there is above it, so that a start that fails leaves no folder. The time until it is synced
// counts. Errors: IoError of the system with the path (no room, read-only, an error of the device), or EIO where other bytes are
// read. Thread rule: any thread.
#pragma once

#include <string>

#include "athanor/base/file.h"

namespace athanor::launch::warm_up {

double measure_disk(Env& env, const std::string& folder, int rank);

}  // namespace athanor::launch::warm_up
