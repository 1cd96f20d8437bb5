// What a campaign says to people.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "athanor/chaos/campaign.h"

namespace athanor::chaos {
namespace {

std::string times_of(const char* what, const Json& spread) {
  if (spread.is_null()) return "";
  return fmt::format("; {} p50 {:.3f} s, p99 {:.3f} s, at most {:.3f} s", what, spread["p50"].get<double>(),
                     spread["p99"].get<double>(), spread["max"].get<double>());
}

}  // namespace

std::string sentence_of(const TrialResult& result) {
  std::string text = result.is_control ? fmt::format("control of {}", result.fault)
                                       : fmt::format("trial {}: {}", result.trial, result.fault);
  if (!result.ranks.empty())
    text += fmt::format(" of rank{} {}", result.ranks.size() == 1 ? "" : "s", fmt::join(result.ranks, ", "));
  text += fmt::format(" at {:.3f} s, step {}: ", result.at_seconds, result.seen.at_step);
  if (result.is_control)
    return text + (result.passed() ? "PASSED, and must fail" : "failed, as it must: " + result.why.front());
  if (!result.passed()) return text + fmt::format("FAILED: {}", fmt::join(result.why, "; "));
  text += "passed";
  if (result.seen.recover_seconds)
    text += fmt::format(", recovered in {:.3f} s", *result.seen.recover_seconds);
  return text;
}

std::string summary_text(const Json& summary) {
  std::string text;
  for (const Json& row : summary.at("summary")) {
    text += fmt::format("{}{}: {} passed of {}{}{}", text.empty() ? "" : "\n",
                        row["fault"].get<std::string>(), row["passed"].get<int64_t>(),
                        row["trials"].get<int64_t>(), times_of("recovered", row["recover_seconds"]),
                        times_of("detected", row["detect_seconds"]));
    if (row["redid_a_step"] > 0)
      text += fmt::format("; {} did a step again", row["redid_a_step"].get<int64_t>());
    if (row["control_failed"] == false) text += "; ITS NEGATIVE CONTROL PASSED";
  }
  return text;
}

}  // namespace athanor::chaos
