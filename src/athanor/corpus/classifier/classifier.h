// The stage "classifier": keeps documents that a trained classifier takes for good ones.
//
//   const std::unique_ptr<Stage> stage = make_classifier({.model = "quality.linear", .least = 0.5});
//   const std::unique_ptr<Stage> gpt3 = make_classifier({.model = "quality.bin", .label = "hq", .keep = "pareto"});
//
// The model is a file of train_classifier() (linear_model.h), with the labels good and bad, or one of fastText
// (fasttext_model.h); its first bytes say which. Score: classifier = P(label), NaN where the model knows nothing of the
// text. keep = "threshold" has the rule classifier >= least.
//
// keep = "pareto" keeps some documents of low score, as the filter of GPT-3 does (Brown et al. 2020, appendix A): those
// with X > 1 - P(label), where X = (1 - U)^(-1/alpha) - 1 and U is uniform in [0, 1), a number that depends on the seed
// and the document's id alone. Its second score is classifier.pareto = X - (1 - P(label)), with the rule that it is above
// 0. A document is kept with probability (2 - P(label))^-alpha.
// Thread rule: see stage.h. Errors: ConfigError for settings, labels with the nearest; those of the two models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::classifier {

struct ClassifierOptions {
  std::string model = {};
  std::string label = "good";
  std::string keep = "threshold";  // pareto
  double least = 0.5;
  double alpha = 3.0;
  int64_t seed = 1;
};

std::unique_ptr<Stage> make_classifier(const ClassifierOptions& options);
const std::vector<config::Field<ClassifierOptions>>& classifier_fields();

}  // namespace athanor::corpus::classifier
