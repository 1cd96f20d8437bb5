// Brings a module that lies beside the program (apps/preloaded) into all processes of a job.
//
//   std::string unavailable() const override { return preload_unavailable("athanor_disk.so"); }
//   preload(command, "athanor_disk.so");                 // before the job starts
//
// Errors: none. Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/chaos/job.h"

namespace athanor::chaos {

std::string preload_unavailable(const std::string& module);  // "": it is there
void preload(JobCommand& command, const std::string& module);

}  // namespace athanor::chaos
