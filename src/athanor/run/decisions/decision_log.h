// decisions.jsonl of a run: the decisions that have shaped it so far, each with the generation that took it. TrainState has
// them too and is what counts; the file is for people, for the ledger and for `train --decisions`.
//
//   const std::vector<Decision> all = continue_decisions(state.decisions, io.decisions, state.step);
//   DecisionLog log(env, run_folder, state.decisions);      // what abandoned steps took moves to decisions.abandoned.jsonl
//   log.add(decision, generation);                          // when its step is done
//   recorder.write("decisions.jsonl", log.text());
//
// A kill at any instant loses no line and sets none aside twice. Errors: IoError of the Env; ConfigError of
// continue_decisions. Thread rule: one thread; rank 0 alone has a log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/engine/decisions.h"
#include "athanor/run/run_folder.h"

namespace athanor::run::decisions {

constexpr const char* kDecisionsName = "decisions.jsonl";

// All decisions of a run that goes on after `step`: those of its past, then those of `given` that come later. Notes in
// `given` (layout) are of another run and left out. ConfigError where `given`, if there is one, has another past.
std::vector<Decision> continue_decisions(const std::vector<Decision>& past,
                                         const std::optional<std::vector<Decision>>& given, int64_t step);

// Whether the decisions of `all` up to `step` are those of `past`, notes and reasons apart.
bool is_past_of(const std::vector<Decision>& past, const std::vector<Decision>& all, int64_t step);

class DecisionLog {
 public:
  // Makes the file that of a run with the decisions `taken`.
  DecisionLog(Env& env, const RunFolder& folder, const std::vector<Decision>& taken);
  int64_t num_abandoned() const { return num_abandoned_; }  // lines that were set aside

  void add(const Decision& decision, int64_t generation);
  std::string text() const;

 private:
  std::vector<std::string> lines_;
  int64_t num_abandoned_ = 0;
};

}  // namespace athanor::run::decisions
