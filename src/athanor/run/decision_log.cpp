#include "athanor/run/decision_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/observe/set_aside.h"

namespace athanor::run {
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

std::string text_of_skip(const BatchSkip* skip) {
  return skip == nullptr ? "none" : fmt::format("{} batches at step {}", skip->batches, skip->step);
}

}  // namespace

std::vector<Decision> continue_decisions(const std::vector<Decision>& past,
                                         const std::optional<std::vector<Decision>>& given, int64_t step) {
  std::vector<Decision> all = past;
  if (!given) return all;
  std::vector<BatchSkip> got;
  const std::vector<BatchSkip> had = skips_of(past);
  for (const Decision& decision : *given) {
    const bool is_note = std::holds_alternative<LayoutChange>(decision.what);
    if (decision.step > step && !is_note) all.push_back(decision);
  }
  for (const BatchSkip& skip : skips_of(*given))
    if (skip.step <= step) got.push_back(skip);
  for (size_t i = 0; i < std::max(got.size(), had.size()); ++i) {
    const BatchSkip* is = i < got.size() ? &got[i] : nullptr;
    const BatchSkip* was = i < had.size() ? &had[i] : nullptr;
    if (is != nullptr && was != nullptr && *is == *was) continue;
    throw ConfigError(
        fmt::format("--decisions: skip_batches: got {}, expected {} as in the run, which has done {} steps",
                    text_of_skip(is), text_of_skip(was), step),
        "what is past cannot change: give the new run another train.name");
  }
  return all;
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

}  // namespace athanor::run
