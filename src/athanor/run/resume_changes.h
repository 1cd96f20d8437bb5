// Tells the user which settings changed when a run is resumed. check_resumable() (run/run_folder.h) refuses
// changes that are not allowed; the others are listed.
//
//   for (const std::string& line : resume_changes(then, now, step)) recorder.message(line);
//   // "changed since step 180: optimizer.lr 0.0003 -> 0.01"
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/engine/decisions.h"

namespace athanor::run {

// A line for each changed setting, and one where the learning rate jumps. `then`: the settings in the checkpoint.
std::vector<std::string> resume_changes(const Config& then, const Config& now, int64_t step);

// The change of tp, cp, ep or micro-batch size within the phase that goes on after `step`: it keeps the tolerance of law 1,
// not the bits.
std::optional<LayoutChange> layout_change(const Config& then, const Config& now, int64_t step);

// The first difference between two data identities (Dataset::identity): "channel 'en': the tokens changed from 10 to
// 12".
std::string data_change(const std::string& then, const std::string& now);

}  // namespace athanor::run
