#include "athanor/corpus/passes/verdicts.h"

#include <algorithm>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/components.h"
#include "athanor/corpus/dedup/duplicate_pairs.h"

namespace athanor::corpus::passes {
namespace {

bool is_kept_number(const Verdicts& verdicts, uint64_t number) {
  return number < kFirstKeyNumber || verdicts.kept(number - kFirstKeyNumber);
}

}  // namespace

uint16_t Verdicts::code_of(size_t stage, const std::string& name) {
  for (size_t i = 0; i < reasons_.size(); ++i)
    if (reasons_[i].stage == stage && reasons_[i].name == name) return static_cast<uint16_t>(i + 1);
  check(reasons_.size() < std::numeric_limits<uint16_t>::max(), "corpus: more than {} rules",
        reasons_.size());
  reasons_.push_back({stage, name});
  return static_cast<uint16_t>(reasons_.size());
}

void decide_rules(Env& env, const CorpusConfig& config, const Parts& parts, const Annotated& annotated,
                  size_t begin, size_t end, Verdicts& verdicts) {
  std::vector<std::vector<uint16_t>> codes(end - begin);
  for (size_t stage = begin; stage < end; ++stage)
    for (const Rule& rule : config.stages[stage].rules)
      codes[stage - begin].push_back(verdicts.code_of(stage, rule.name));
  const size_t columns = annotated.columns.count;
  const StageConfig* cut_by =
      annotated.segment.cut_by < 0 ? nullptr : &config.stages[static_cast<size_t>(annotated.segment.cut_by)];
  for (const Part& part : parts.parts) {
    const std::vector<double> rows = read_scores(env, annotated.scores(part), columns);
    check(rows.size() == part.documents * columns, "'{}': has {} rows, expected {}", annotated.scores(part),
          rows.size() / columns, part.documents);
    for (uint64_t i = 0; i < part.documents; ++i) {
      const std::span<const double> row(rows.data() + i * columns, columns);
      const uint64_t document = part.first + i;
      verdicts.set_bytes(document, static_cast<uint64_t>(row[0]));
      if (cut_by != nullptr && verdicts.kept(document))
        if (const Rule* broken = first_broken(cut_by->rules, row.subspan(1)))
          verdicts.drop(document,
                        verdicts.code_of(static_cast<size_t>(annotated.segment.cut_by), broken->name));
      for (size_t stage = begin; stage < end && verdicts.kept(document); ++stage) {
        if (config.stages[stage].is_dedup()) continue;
        const StageConfig& settings = config.stages[stage];
        const auto scores = row.subspan(annotated.columns.first[stage - annotated.segment.begin]);
        const Rule* broken = first_broken(settings.rules, scores);
        if (broken != nullptr)
          verdicts.drop(document, codes[stage - begin][static_cast<size_t>(broken - settings.rules.data())]);
      }
    }
  }
}

void decide_copies(Env& env, const CorpusConfig& config, const Groups& groups, Verdicts& verdicts) {
  // An earlier corpus is one document: whoever is like any of its documents is like it.
  Components components(verdicts.documents() + kFirstKeyNumber);
  DuplicatePairs pairs([&](uint64_t number) { return is_kept_number(verdicts, number); },
                       [&](const KeyRecord& first, const KeyRecord& later) {
                         components.join(first.document, later.document);
                       });
  groups.for_each(env, [&](const KeyRecord& record) { pairs.add(record); });
  const uint16_t code = verdicts.code_of(groups.stage, config.stages[groups.stage].copies);
  for (uint64_t document = 0; document < verdicts.documents(); ++document)
    if (verdicts.kept(document) && !components.is_kept(document + kFirstKeyNumber))
      verdicts.drop(document, code);
}

std::vector<Cut> decide_cuts(Env& env, const Groups& groups, const Verdicts& verdicts) {
  std::vector<Cut> cuts;
  DuplicatePairs pairs([&](uint64_t number) { return is_kept_number(verdicts, number); },
                       [&](const KeyRecord&, const KeyRecord& later) {
                         if (later.document >= kFirstKeyNumber)
                           cuts.push_back({later.document - kFirstKeyNumber, {later.begin, later.end}});
                       });
  groups.for_each(env, [&](const KeyRecord& record) { pairs.add(record); });
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace athanor::corpus::passes
