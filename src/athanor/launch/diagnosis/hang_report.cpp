#include "athanor/launch/diagnosis/hang_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/human.h"

namespace athanor::launch::diagnosis {
namespace {

const char* deed_of(control::ProgressKind kind) {
  using control::ProgressKind;
  switch (kind) {
    case ProgressKind::evaluation:
      return "evaluated another batch";
    case ProgressKind::saving:
      return "finished saving";
    case ProgressKind::tokenizing:
      return "tokenized more text";
    default:
      return "done a step";
  }
}

std::string why_no_stacks(const std::vector<RankStacks>& stacks) {
  for (const RankStacks& one : stacks)
    if (!one.stacks.refused.empty()) return "; stacks cannot be read: " + one.stacks.refused;
  return "";
}

}  // namespace

HangReport report_of(const Standstill& found, const std::vector<RankStacks>& stacks) {
  const auto seconds = [](int64_t ns) { return human_seconds(static_cast<double>(ns) * 1e-9); };
  const std::vector<StackCluster> clusters = cluster_stacks(stacks);
  HangReport report;
  report.rank = odd_rank(clusters);
  report.sentence = fmt::format("no rank has {} for {} (usually {})", deed_of(found.kind),
                                seconds(found.still_ns), seconds(found.usual_ns));
  if (!report.rank) {
    report.lines = text_of(clusters) + why_no_stacks(stacks);
    report.sentence += "; it is not clear which one holds up the others";
    return report;
  }
  const auto odd = std::find_if(clusters.begin(), clusters.end(), [&](const StackCluster& cluster) {
    return cluster.ranks.front() == *report.rank;
  });
  // "rank 1: sleeps in ...": a sentence without the colon.
  std::string where = text_of({*odd}, /*most_frames=*/4);
  if (const size_t colon = where.find(':'); colon != std::string::npos) where.erase(colon, 1);
  report.sentence += fmt::format(": {}; the others wait for it{}", where, why_no_stacks(stacks));
  return report;
}

}  // namespace athanor::launch::diagnosis
