#include "athanor/run/decisions/decision_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/observe/set_aside.h"

namespace athanor::run::decisions {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

bool says(const std::string& line, const Decision& decision) {
  try {
    return parse_decision(line, kDecisionsName) == decision;
  } catch (const Error&) {
    return false;
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

bool is_note(const Decision& decision) {
  return std::holds_alternative<LayoutChange>(decision.what);
}

// What of the decisions up to `step` shapes the bits; why they were taken does not.
std::vector<Decision> what_counts(const std::vector<Decision>& decisions, int64_t step) {
  std::vector<Decision> counts;
  for (const Decision& decision : decisions)
    if (decision.step <= step && !is_note(decision)) counts.push_back({decision.step, decision.what, ""});
  return counts;
}

std::string short_text(const Decision* decision) {
  if (decision == nullptr) return "none";
  if (const auto* skip = std::get_if<SkipBatches>(&decision->what))
    return fmt::format("{} batches at step {}", skip->batches, decision->step);
  if (const auto* set = std::get_if<SetSetting>(&decision->what))
    return fmt::format("{} = {} at step {}", set->key, set->value, decision->step);
  const auto& data = std::get<QuarantineData>(decision->what);
  return fmt::format("offset {} of '{}' at step {}", data.offset, data.file, decision->step);
}

}  // namespace

std::vector<Decision> continue_decisions(const std::vector<Decision>& past,
                                         const std::optional<std::vector<Decision>>& given, int64_t step) {
  std::vector<Decision> all = past;
  if (!given) return all;
  for (const Decision& decision : *given)
    if (decision.step > step && !is_note(decision)) all.push_back(decision);
  const std::vector<Decision> had = what_counts(past, step), got = what_counts(*given, step);
  for (size_t i = 0; i < std::max(got.size(), had.size()); ++i) {
    const Decision* is = i < got.size() ? &got[i] : nullptr;
    const Decision* was = i < had.size() ? &had[i] : nullptr;
    if (is != nullptr && was != nullptr && *is == *was) continue;
    const Decision::What& what = (is != nullptr ? is : was)->what;
    const char* kind = std::holds_alternative<SkipBatches>(what)  ? "skip_batches"
                       : std::holds_alternative<SetSetting>(what) ? "set"
                                                                  : "quarantine";
    throw ConfigError(
        fmt::format("--decisions: {}: got {}, expected {} as in the run, which has done {} steps", kind,
                    short_text(is), short_text(was), step),
        "what is past cannot change: give the new run another train.name");
  }
  return all;
}

bool is_past_of(const std::vector<Decision>& past, const std::vector<Decision>& all, int64_t step) {
  return what_counts(past, step) == what_counts(all, step);
}

DecisionLog::DecisionLog(Env& env, const RunFolder& folder, const std::vector<Decision>& taken) {
  const std::string path = folder.file(kDecisionsName);
  const std::string before = env.exists(path) ? env.read_text(path) : "";
  std::vector<std::string> found = lines_of(before);
  for (const Decision& decision : taken) {
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const std::string& line) { return says(line, decision); });
    lines_.push_back(same != found.end() ? *same : decision_line(decision));
    if (same != found.end()) found.erase(same);
  }
  num_abandoned_ = std::ssize(found);
  set_aside(env, folder.file("decisions.abandoned.jsonl"), joined(found));
  if (text() != before) env.write_atomically(path, text());
}

void DecisionLog::add(const Decision& decision, int64_t generation) {
  lines_.push_back(decision_line(decision, generation));
}

std::string DecisionLog::text() const {
  return joined(lines_);
}

}  // namespace athanor::run::decisions
