// Decisions: what shapes a run beside its settings, from which step on, and why. They are part of TrainState, so a
// checkpoint has those of its past, and one process given the same list computes the same bits (law 3).
//
//   const std::vector<Decision> list = parse_decisions(env.read_text("decisions.jsonl"), "decisions.jsonl");
//   const Sampler sampler(channels, seed, global_batch, {.first_step = 1, .skips = skips_of(list)});
//
// A line of decisions.jsonl is one decision, in ascending order of steps:
//
// - {"step":5,"decision":"skip_batches","batches":2,"why":"a loss spike"}
// - {"step":7,"decision":"quarantine","channel":"en","file":"data/en.bin","offset":4096,"why":"token 2048 is id ..."}
// - {"step":9,"decision":"layout","from":"tp 1, ...","to":"tp 2, ...","why":"resumed with another layout"}
//
// - {"step":41,"decision":"set","key":"optimizer.lr","value":"0.001","was":"0.003","why":"the operator wants it"}
//
// skip_batches: from that step on the next `batches` global batches of its phase are left out (data/sampler.h). quarantine:
// from that step on the sequences with the token at that offset, in bytes, are not trained on; the order of all others stays.
// set: from that step on the setting has that value in place of the one that it was; where the settings give it another one
// than that, they were changed since, and the decision has no effect (run/decisions/set_settings.h); one to the value that it was
// says that it stays (run/tuning/tuner.h). layout: a note of a change that keeps the tolerance and not the bits; nothing is computed from it. A line may also have
// the "generation" that recorded it (docs/run_folder.md), which is no part of the decision.
//
// Errors: Error (ConfigError of parse_decisions) naming file, line and what is wrong: an unknown kind or key, a number out
// of range, steps that do not ascend, two skips of one step. Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "athanor/data/batch.h"

namespace athanor::engine {

struct SkipBatches {
  int64_t batches = 1;
  bool operator==(const SkipBatches&) const = default;
};

struct QuarantineData {
  std::string channel, file;
  int64_t offset = 0;  // bytes
  bool operator==(const QuarantineData&) const = default;
};

struct SetSetting {
  std::string key, value, was;  // TOML
  bool operator==(const SetSetting&) const = default;
};

struct LayoutChange {
  std::string from, to;
  bool operator==(const LayoutChange&) const = default;
};

struct Decision {
  using What = std::variant<SkipBatches, LayoutChange, QuarantineData, SetSetting>;
  int64_t step = 1;  // the first step that it holds for
  What what;
  std::string why = {};
  bool operator==(const Decision&) const = default;
};

// One line, without its end. A generation below 0 is left out.
std::string decision_line(const Decision& decision, int64_t generation = -1);
// `where`: "decisions.jsonl:3".
Decision parse_decision(std::string_view line, const std::string& where);
std::vector<Decision> parse_decisions(std::string_view text, const std::string& file);

// For people: "skips 2 global batches: a loss spike".
std::string text_of(const Decision& decision);

// What the sampler is to leave out.
std::vector<BatchSkip> skips_of(const std::vector<Decision>& decisions);
std::vector<Quarantine> quarantines_of(const std::vector<Decision>& decisions);

// The list for a run that has done the steps up to `last` of a phase, and goes back to before
// `first`: the batches of the steps `first` to `last` are left out, together with those that decisions of these steps skip.
std::vector<Decision> undo_steps(std::vector<Decision> decisions, int64_t first, int64_t last,
                                 const std::string& why);
// The list with `added`, which are of one step.
std::vector<Decision> with_decisions(std::vector<Decision> decisions, const std::vector<Decision>& added);

}  // namespace athanor::engine
