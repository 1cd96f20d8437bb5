// A linear classifier of texts: how likely is it that a text is like the good examples and not like the bad ones?
//
//   const LinearModel model = train_classifier(good, bad, {.seed = 1});
//   model.held_out_auc();                          // on the tenth of the examples that training did not see
//   model.write(system_env(), "quality.linear");
//   const double p = LinearModel::read(system_env(), "quality.linear").probability(text);
//
// Features: words (perplexity/ngram_words.h), runs of up to `words` of them, and of each word with its ends marked the
// runs of `characters` characters; each hashed to one of 2^bits weights. p = 1 / (1 + exp(-bias - sum of w / sqrt(n)))
// over the n features of a text. Logistic regression (fastText's hashing, Joulin et al. 2016) by AdaGrad steps (Duchi et
// al. 2011), text by text in an order that Philox gives; both classes have the same weight in all. The same examples and
// options give the same bits.
//
// Memory: 4 bytes a weight (16 MiB at most for 22 bits); in training twice that, and 4 bytes a feature.
// Thread rule: a model does not change. Errors: ConfigError for options and missing examples; Error naming the file where
// it is damaged or foreign; IoError.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::corpus::classifier {

struct FeatureOptions {
  int64_t bits = 20;       // 2^bits weights, 10 to 24
  int64_t words = 2;       // longest run, 1 to 5
  int64_t characters = 0;  // 0: none; to 8
  bool lowercase = true;
};

struct ClassifierTraining {
  FeatureOptions features = {};
  int64_t epochs = 5;
  double learning_rate = 0.5;
  double held_out = 0.1;  // share of each class that only the AUC is measured on
  uint64_t seed = 1;
};

class LinearModel {
 public:
  static LinearModel read(base::Env& env, const std::string& path);
  static LinearModel read(const base::ReadableFile& file, const std::string& name);
  void write(base::Env& env, const std::string& path) const;  // whole or not at all

  double probability(std::string_view text) const;       // of "good"; NaN for a text without a word
  double held_out_auc() const { return held_out_auc_; }  // NaN: nothing was held out
  int64_t documents() const { return documents_; }       // examples of both classes

 private:
  friend LinearModel train_classifier(std::span<const std::string> good, std::span<const std::string> bad,
                                      const ClassifierTraining& options);
  FeatureOptions features_;
  std::vector<float> weights_;
  double bias_ = 0.0;
  double held_out_auc_ = 0.0;
  int64_t documents_ = 0;
};

LinearModel train_classifier(std::span<const std::string> good, std::span<const std::string> bad,
                             const ClassifierTraining& options);

// Indices of weights, in the order of the text. ConfigError for options outside of what is said above.
std::vector<uint32_t> features_of(std::string_view text, const FeatureOptions& options);
void check_options(const FeatureOptions& options);

// The probability that one of `good` is above one of `bad`, a tie counting half. NaN where one of them is empty.
double area_under_curve(const std::vector<double>& good, const std::vector<double>& bad);

}  // namespace athanor::corpus::classifier
