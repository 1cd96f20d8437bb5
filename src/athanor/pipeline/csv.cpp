#include "athanor/pipeline/csv.h"

#include <algorithm>
#include <charconv>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/pipeline/validate.h"

namespace athanor::pipeline {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 28;
constexpr int kMaxNumber = 1 << 22;  // stages and micro-batches: no schedule that validates has more
constexpr size_t kShown = 40;        // columns of a cell in a message

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Calls body with each piece between separators.
template <typename Body>
void split(std::string_view text, char separator, Body body) {
  for (size_t at = 0;;) {
    const size_t end = std::min(text.find(separator, at), text.size());
    body(text.substr(at, end - at));
    if (end == text.size()) return;
    at = end + 1;
  }
}

Action parse_action(std::string_view cell, const std::string& name, int64_t line) {
  Action action;
  const char* const end = cell.data() + cell.size();
  const auto stage = std::from_chars(cell.data(), end, action.stage);
  const auto refuse = [&] {
    fail("schedule '{}': line {}: got '{}', expected an action such as 2F0: stage, F, B, I or W, micro-batch",
         name, line, fit_columns(printable(cell), kShown));
  };
  if (stage.ec != std::errc() || stage.ptr == end ||
      std::string_view("FBIW").find(*stage.ptr) == std::string::npos)
    refuse();
  action.act = static_cast<Act>(*stage.ptr);
  const auto micro = std::from_chars(stage.ptr + 1, end, action.micro_batch);
  if (micro.ec != std::errc() || micro.ptr != end || action.stage < 0 || action.micro_batch < 0 ||
      action.stage >= kMaxNumber || action.micro_batch >= kMaxNumber)
    refuse();
  return action;
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text =
      "# A line per rank, its actions in order: stage, F forward, B backward (I its input gradient, W its "
      "weight\n"
      "# gradient), micro-batch.\n";
  for (const auto& actions : schedule.ranks) {
    for (size_t k = 0; k < actions.size(); ++k) text += (k == 0 ? "" : ",") + str(actions[k]);
    text += '\n';
  }
  return text;
}

Schedule parse_csv(std::string_view text, const std::string& name) {
  Schedule schedule;
  schedule.name = printable(name);
  int64_t line_number = 0;
  split(text, '\n', [&](std::string_view line) {
    ++line_number;
    line = trimmed(line);
    if (line.empty() || line.front() == '#') return;
    auto& actions = schedule.ranks.emplace_back();
    split(line, ',', [&](std::string_view cell) {
      cell = trimmed(cell);
      if (!cell.empty()) actions.push_back(parse_action(cell, schedule.name, line_number));
    });
  });
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      const auto stage = static_cast<size_t>(action.stage);
      if (stage >= schedule.rank_of_stage.size()) schedule.rank_of_stage.resize(stage + 1, -1);
      if (schedule.rank_of_stage[stage] < 0) schedule.rank_of_stage[stage] = rank;
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
    }
  for (int stage = 0; stage < schedule.num_stages(); ++stage)
    check(schedule.rank_of_stage[static_cast<size_t>(stage)] >= 0,
          "schedule '{}': stage {} has no actions, the last is {}", schedule.name, stage,
          schedule.num_stages() - 1);
  validate(schedule);
  return schedule;
}

Schedule load_schedule(Env& env, const std::string& path) {
  return parse_csv(env.read_text(path, kMaxBytes), path);
}

}  // namespace athanor::pipeline
