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
  output.flush(now_ns(), true);
  if (verdict.failed_rank < 0) return result;
  const auto words = output.last_words(verdict.failed_rank);
  if (!words.error.empty()) {
    result.message += ": " + words.error;
    result.hint = words.hint;
  } else if (!verdict.what.empty()) {
    result.message += ": " + verdict.what;
  } else if (!words.lines.empty()) {
    result.message += "; it last wrote:";
    for (const auto& line : words.lines) result.message += "\n    " + line;
  }
  if (verdict.killed && result.hint.empty())
    result.hint = "if nobody killed it, the kernel may have, for want of memory: see dmesg";
  return result;
}

std::string summary(const LaunchResult& result) {
  if (result.exit_code == 0) return "finished";
  return result.exit_code == kInterruptedExitCode ? "interrupted" : result.message;
}

}  // namespace athanor::launch
