#include "athanor/chaos/judge.h"

#include <fmt/core.h>

#include <string_view>

namespace athanor::chaos {
namespace {

// A job that is asked to end does so after as many steps; one that has no more ends as ever.
constexpr int64_t kStepsToStop = 2;

std::string in_brackets(const std::string& text) {
  return text.empty() ? "" : " (" + text + ")";
}

// That it was said who was struck, and that nobody was blamed for nothing.
void judge_naming(const Seen& seen, const Expectation& expected, std::vector<std::string>& wrong) {
  const double limit = expected.named_within_seconds;
  const bool is_over = seen.at_step + kStepsToStop >= seen.last_step;
  if (limit > 0.0 && !seen.detect_seconds && !is_over)
    wrong.push_back(fmt::format("no event '{}' has named it", expected.named_by));
  if (limit > 0.0 && seen.detect_seconds && *seen.detect_seconds > limit)
    wrong.push_back(
        fmt::format("named after {:.3f} s, expected at most {:.3g} s", *seen.detect_seconds, limit));
  if (expected.no_failure && !seen.alarms.empty())
    wrong.push_back("taken for a failure: " + seen.alarms.front());
}

}  // namespace

std::string error_said_in(const std::string& text) {
  constexpr std::string_view kStart = "athanor: error: ";
  const size_t found = text.rfind(kStart);
  if (found == std::string::npos) return "";
  const size_t first = found + kStart.size();
  return text.substr(first, text.find('\n', first) - first);
}

std::vector<std::string> judge(const Seen& seen, const Expectation& expected) {
  std::vector<std::string> wrong;
  if (!seen.endless.empty()) wrong.push_back(seen.endless);
  wrong.insert(wrong.end(), seen.notes.begin(), seen.notes.end());
  for (const int rank : seen.missed)
    wrong.push_back(fmt::format("{} had ended before it was struck", rank == kMasterMissed ? "the master"
                                                                     : rank == kAgentMissed
                                                                         ? "the agent"
                                                                         : fmt::format("rank {}", rank)));
  const bool was_done =
      expected.goes_on && seen.exit_code == 0 && seen.at_step + kStepsToStop >= seen.last_step;
  if (seen.endless.empty() && seen.exit_code != expected.exit_code && !was_done)
    wrong.push_back(fmt::format("the job {}, expected exit code {}{}", seen.ending, expected.exit_code,
                                in_brackets(error_said_in(seen.last_words))));
  if (seen.second_exit_code && *seen.second_exit_code != 0)
    wrong.push_back(fmt::format("the same command again: exit code {}, expected 0{}", *seen.second_exit_code,
                                in_brackets(error_said_in(seen.last_words))));
  wrong.insert(wrong.end(), seen.differences.begin(), seen.differences.end());
  if (seen.lost_steps.value_or(0) > expected.most_redone_steps)
    wrong.push_back(
        fmt::format("{} steps were lost, expected at most {}", *seen.lost_steps, expected.most_redone_steps));
  if (!seen.lost_steps && seen.best_step < seen.last_step)
    wrong.push_back("no step was seen after the fault");
  if (expected.survivors && seen.survivors_kept_pids == false)
    wrong.push_back("a rank that was not struck lost its process");
  judge_naming(seen, expected, wrong);
  for (const std::string& leftover : seen.leftovers) wrong.push_back("left behind: " + leftover);
  return wrong;
}

}  // namespace athanor::chaos
