// What a resumed run does otherwise than before, for people. check_resumable() (run_folder.h) has refused what must not
// change; the rest may, and is said.
//
//   for (const std::string& line : resume_changes(then, now, step)) recorder.message(line);
//   // "changed since step 180: optimizer.lr 0.0003 -> 0.01"
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor {

// A line for each setting, and one for the learning rate where it jumps. `then` are the settings of the checkpoint.
std::vector<std::string> resume_changes(const Config& then, const Config& now, int64_t step);

// The first difference of two data identities (Dataset::identity), as "channel 'en': tokens changed from 10 to 12".
std::string data_change(const std::string& then, const std::string& now);

}  // namespace athanor
