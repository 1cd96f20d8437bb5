#include "athanor/chaos/judge.h"

#include <fmt/core.h>

namespace athanor::chaos {
namespace {

// A job that is asked to end does so after as many steps; one that has no more ends as ever.
constexpr int64_t kStepsToStop = 2;

// The last line of an error that a program has said.
std::string last_line(const std::string& text) {
  const size_t found = text.rfind("athanor: error: ");
  if (found == std::string::npos) return "";
  return " (" + text.substr(found, text.find('\n', found) - found) + ")";
}

}  // namespace

std::vector<std::string> judge(const Seen& seen, const Expectation& expected) {
  std::vector<std::string> wrong;
  if (!seen.endless.empty()) wrong.push_back(seen.endless);
  for (const int rank : seen.missed)
    wrong.push_back(fmt::format("rank {} had ended before it was struck", rank));
  const bool was_done =
      expected.goes_on && seen.exit_code == 0 && seen.at_step + kStepsToStop >= seen.last_step;
  if (seen.endless.empty() && seen.exit_code != expected.exit_code && !was_done)
    wrong.push_back(fmt::format("the job {}, expected exit code {}{}", seen.ending, expected.exit_code,
                                last_line(seen.last_words)));
  if (seen.second_exit_code && *seen.second_exit_code != 0)
    wrong.push_back(fmt::format("the same command again: exit code {}, expected 0{}", *seen.second_exit_code,
                                last_line(seen.last_words)));
  wrong.insert(wrong.end(), seen.differences.begin(), seen.differences.end());
  if (seen.lost_steps.value_or(0) > expected.most_redone_steps)
    wrong.push_back(
        fmt::format("{} steps were lost, expected at most {}", *seen.lost_steps, expected.most_redone_steps));
  if (!seen.lost_steps && seen.at_step < seen.last_step && !was_done)
    wrong.push_back("no step was seen after the fault");
  if (expected.survivors && seen.survivors_kept_pids == false)
    wrong.push_back("a rank that was not struck lost its process");
  for (const std::string& leftover : seen.leftovers) wrong.push_back("left behind: " + leftover);
  return wrong;
}

}  // namespace athanor::chaos
