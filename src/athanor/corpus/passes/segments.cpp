#include "athanor/corpus/passes/segments.h"

namespace athanor::corpus::passes {

std::vector<Segment> segments_of(const CorpusConfig& config) {
  std::vector<Segment> segments;
  Segment open;
  for (size_t i = 0; i < config.stages.size(); ++i) {
    open.end = i + 1;
    open.cuts = config.stages[i].cuts();
    if (!open.cuts) continue;
    segments.push_back(open);
    open = {.begin = i + 1, .end = i + 1, .cut_by = static_cast<int64_t>(i)};
  }
  // The last one may be empty: it has the texts that the cuts of the one before leave.
  segments.push_back(open);
  return segments;
}

ScoreColumns columns_of(const CorpusConfig& config, const Segment& segment) {
  ScoreColumns columns;
  if (segment.cut_by >= 0)
    columns.count += config.stages[static_cast<size_t>(segment.cut_by)].stage->scores().size();
  for (size_t i = segment.begin; i < segment.end; ++i) {
    columns.first.push_back(columns.count);
    if (!config.stages[i].is_dedup()) columns.count += config.stages[i].stage->scores().size();
  }
  return columns;
}

bool rules_keep(const CorpusConfig& config, const Segment& segment, const ScoreColumns& columns,
                std::span<const double> row) {
  if (segment.cut_by >= 0 &&
      first_broken(config.stages[static_cast<size_t>(segment.cut_by)].rules, row.subspan(1)) != nullptr)
    return false;
  for (size_t i = segment.begin; i < segment.end; ++i)
    if (!config.stages[i].is_dedup() &&
        first_broken(config.stages[i].rules, row.subspan(columns.first[i - segment.begin])) != nullptr)
      return false;
  return true;
}

}  // namespace athanor::corpus::passes
