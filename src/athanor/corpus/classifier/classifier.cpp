#include "athanor/corpus/classifier/classifier.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/base/nearest.h"
#include "athanor/base/philox.h"
#include "athanor/corpus/classifier/fasttext_file.h"
#include "athanor/corpus/classifier/fasttext_model.h"
#include "athanor/corpus/classifier/linear_model.h"

namespace athanor::corpus::classifier {
namespace {

size_t place_of_label(const std::string& label, const std::vector<std::string>& labels,
                      const std::string& model) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  if (at != labels.end()) return static_cast<size_t>(at - labels.begin());
  const std::string nearest = base::nearest_name(label, labels);
  const std::span<const std::string> some(labels.data(), std::min<size_t>(labels.size(), 8));
  throw base::ConfigError(fmt::format("classifier.label: got \"{}\", expected a label of {}", label, model),
                          nearest.empty() ? fmt::format("it has {}{}", fmt::join(some, ", "),
                                                        labels.size() > some.size() ? ", ..." : "")
                                          : fmt::format("did you mean \"{}\"?", nearest));
}

using Probability = std::function<double(std::string_view text)>;

Probability probability_of(const ClassifierOptions& options) {
  if (options.model.empty())
    throw base::ConfigError("classifier.model: got no file, expected a model",
                            "train one with athanor corpus train-classifier");
  const auto file = base::system_env().open(options.model);
  std::string head(std::min<uint64_t>(file->size_bytes(), 4), '\0');
  file->read(0, head.data(), head.size());
  if (!is_fasttext_file(head)) {
    const bool wants_good = place_of_label(options.label, {"good", "bad"}, options.model) == 0;
    const auto model = std::make_shared<LinearModel>(LinearModel::read(*file, options.model));
    return [model, wants_good](std::string_view text) {
      const double good = model->probability(text);
      return wants_good ? good : 1.0 - good;
    };
  }
  const auto model = std::make_shared<FastTextModel>(options.model);
  const size_t place = place_of_label(options.label, model->labels(), options.model);
  return [model, place](std::string_view text) {
    std::vector<double> probabilities(model->labels().size());
    return model->predict(text, probabilities) ? std::min(probabilities[place], 1.0) : NAN;
  };
}

class ClassifierStage : public Stage {
 public:
  explicit ClassifierStage(const ClassifierOptions& options)
      : is_pareto_(options.keep == "pareto"),
        alpha_(options.alpha),
        random_(static_cast<uint64_t>(options.seed), "classifier.pareto") {
    if (options.keep != "pareto" && options.keep != "threshold")
      throw base::ConfigError(
          fmt::format("classifier.keep: got \"{}\", expected threshold or pareto", options.keep));
    if (!(options.least >= 0.0 && options.least <= 1.0))
      throw base::ConfigError(
          fmt::format("classifier.least: got {}, expected a value in [0, 1]", options.least));
    if (!(options.alpha > 0.0 && std::isfinite(options.alpha)))
      throw base::ConfigError(
          fmt::format("classifier.alpha: got {}, expected a value above 0", options.alpha));
    probability_ = probability_of(options);
    scores_.push_back({"classifier", fmt::format("P({}) by {}", options.label, options.model)});
    if (is_pareto_) {
      scores_.push_back(
          {"classifier.pareto", fmt::format("a draw of pareto({}) - (1 - P({}))", alpha_, options.label)});
      rules_.push_back({"classifier.pareto", 1, std::numeric_limits<double>::denorm_min(), INFINITY});
    } else {
      rules_.push_back({"classifier", 0, options.least, INFINITY});
    }
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    values[0] = probability_(document.text);
    if (is_pareto_) values[1] = pareto(document.id) - (1.0 - values[0]);
  }

 private:
  double pareto(const std::string& id) const {
    const base::Philox4 words = random_.block(base::hash64(id), 0);
    const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
    const double uniform = static_cast<double>(bits) * 0x1p-53;
    return std::pow(1.0 - uniform, -1.0 / alpha_) - 1.0;
  }

  Probability probability_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
  bool is_pareto_;
  double alpha_;
  base::RandomStream random_;
};

}  // namespace

std::unique_ptr<Stage> make_classifier(const ClassifierOptions& options) {
  return std::make_unique<ClassifierStage>(options);
}

const std::vector<config::Field<ClassifierOptions>>& classifier_fields() {
  using O = ClassifierOptions;
  static const std::vector<config::Field<O>> fields = {
      {"classifier",
       "model",
       "file of athanor corpus train-classifier, or of fastText",
       "Train it on a thousand documents of each kind or more.",
       config::slot_of<&O::model>,
       {.is_path = true, .required = true}},
      {"classifier",
       "label",
       "label whose probability is the score, without __label__",
       "good or bad for a model of ours.",
       config::slot_of<&O::label>,
       {}},
      {"classifier",
       "keep",
       "threshold: what reaches least; pareto: by chance, more likely the higher the score",
       "pareto leaves some of what the classifier does not know.",
       config::slot_of<&O::keep>,
       {.choices = {"threshold", "pareto"}}},
      {"classifier",
       "least",
       "of threshold: probability that a document must have",
       "A report draws it into the histogram of the scores.",
       config::slot_of<&O::least>,
       {.range = {0, 1}}},
      {"classifier",
       "alpha",
       "of pareto: a document of score s is kept with probability (2 - s)^-alpha",
       "3 keeps an eighth of what has score 0.",
       config::slot_of<&O::alpha>,
       {.range = {.low = 0, .low_open = true}}},
      {"classifier",
       "seed",
       "of pareto: seed of the draws",
       "The same seed keeps the same documents.",
       config::slot_of<&O::seed>,
       {.range = {.low = 0}}},
  };
  return fields;
}

}  // namespace athanor::corpus::classifier
