// A stage of a corpus build that looks at one document at a time: it gives scores, and may change the text. Rules then
// decide by the scores alone, so that a threshold can be changed without looking at any text again.
//
//   const std::unique_ptr<Stage> stage = make_heuristics({.preset = "gopher"});
//   std::vector<double> scores(stage->scores().size());
//   stage->annotate(document, scores);
//   if (const Rule* rule = first_broken(stage->rules(), scores)) drop(document, rule->name);
//
// A score is NaN where it says nothing of this document (the mean length of no words); then no rule on it is broken.
// A new stage is a class here, in a room of corpus/, and a line in the table of kinds (stage_kinds.cpp).
// Thread rule: a stage does not change after it was made; annotate() may run in many threads and forked processes.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "athanor/corpus/document.h"

namespace athanor::corpus {

// One number per document. The name is "words" or "gopher.mean_word_length"; the formula says numerator and denominator,
// since tools that use one name mean different things by it.
struct Score {
  std::string name;
  std::string formula;
};

// A document is dropped if its score lies outside [least, most]. The name is the reason that a report shows.
struct Rule {
  std::string name;
  size_t score = 0;  // index into scores()
  double least = -INFINITY;
  double most = INFINITY;

  bool broken_by(std::span<const double> scores) const {
    return scores[score] < least || scores[score] > most;
  }
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual const std::vector<Score>& scores() const = 0;
  virtual const std::vector<Rule>& rules() const = 0;
  // values: one for each of scores(), in that order.
  virtual void annotate(Document& document, std::span<double> values) const = 0;
};

// Null: the document is kept.
inline const Rule* first_broken(const std::vector<Rule>& rules, std::span<const double> scores) {
  for (const Rule& rule : rules)
    if (rule.broken_by(scores)) return &rule;
  return nullptr;
}

}  // namespace athanor::corpus
