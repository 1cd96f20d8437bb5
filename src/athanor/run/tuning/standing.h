// How far the tuning of a phase has come, as the decisions of the run tell it: what was tried, whether that was kept, and what the
// operator has taken into his own hands. A process that goes on with a run knows that, too.
//
//   const Standing standing = standing_of(decisions, phase.first_step);
//   if (standing.open)                              // a try that nobody has judged yet
//     decisions.push_back(judgement(*standing.open, /*keeps=*/true, step, "a step takes 0.31 s instead of 0.51 s"));
//
// A try is a decision `set` whose reason begins with kTuning. So is its judgement: where the value is kept a decision to the
// value that it has, else one back to the value that it had. Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/engine/decisions.h"

namespace athanor::run::tuning {

constexpr std::string_view kTuning = "tuning: ";
constexpr const char *kMicroBatchKey = "train.micro_batch_size", *kThreadsKey = "train.threads";

struct Standing {
  std::optional<SetSetting> open = {};                  // a try without a judgement
  std::map<std::string, std::set<int64_t>> tried = {};  // values of a key, with those from which it came
  std::set<std::string> of_operator = {};               // keys that are not tuned any more
  int64_t num_tries = 0;
};
Standing standing_of(const std::vector<Decision>& decisions, int64_t first_step);

Decision judgement(const SetSetting& open, bool keeps, int64_t step, const std::string& why);

}  // namespace athanor::run::tuning
