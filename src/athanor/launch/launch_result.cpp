#include "athanor/launch/launch_result.h"

#include "athanor/base/clock.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

LaunchResult result_of(const Verdict& verdict, RankOutput& output) {
  LaunchResult result{.exit_code = verdict.exit_code,
                      .failed_rank = verdict.failed_rank,
                      .message = verdict.message,
                      .hint = verdict.hint};
  // With a wrong config all ranks print the same message.
  if (verdict.rank_0_says_it) output.drop_held();
  // What the others wrote since is mostly that they lost this one.
  if (verdict.failed_rank >= 0) result.num_lines_dropped = output.drop_held_but_of(verdict.failed_rank);
  output.flush(now_ns(), true);
  if (verdict.failed_rank < 0) return result;
  const auto words = output.last_words(verdict.failed_rank);
  if (!words.error.empty()) {
    result.message += ": " + words.error;
    result.hint = words.hint;
  } else if (!verdict.what.empty()) {
    result.message += ": " + verdict.what;
  }
  return result;
}

std::string text_of(const LaunchResult& result) {
  return result.message + (result.details.empty() ? "" : "\n" + result.details);
}

std::string summary(const LaunchResult& result) {
  if (result.exit_code == 0) return "finished";
  return result.exit_code == kInterruptedExitCode ? "interrupted" : result.message;
}

}  // namespace athanor::launch
