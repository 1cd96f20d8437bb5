#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/corpus/classifier/linear_model.h"

namespace athanor::corpus::classifier {
namespace {

struct LinearExample {
  std::vector<uint32_t> features;
  bool is_good = false;
};

// The first examples of this order are held out, the others are for training.
std::vector<size_t> shuffled(size_t count, uint64_t seed, const char* what) {
  std::vector<size_t> order(count);
  const base::Permutation permutation(count, base::RandomStream(seed, what).key());
  for (size_t i = 0; i < count; ++i) order[i] = static_cast<size_t>(permutation(i));
  return order;
}

void check_training(const ClassifierTraining& options, size_t good, size_t bad) {
  check_options(options.features);
  const auto refuse = [](const char* name, double got, const char* expected) {
    throw base::ConfigError(fmt::format("classifier.{}: got {}, expected {}", name, got, expected));
  };
  if (options.epochs < 1 || options.epochs > 1000)
    refuse("epochs", static_cast<double>(options.epochs), "a value from 1 to 1000");
  if (!(options.learning_rate > 0.0 && options.learning_rate <= 100.0))
    refuse("learning_rate", options.learning_rate, "a value above 0, up to 100");
  if (!(options.held_out >= 0.0 && options.held_out <= 0.5))
    refuse("held_out", options.held_out, "a value in [0, 0.5]");
  if (good == 0 || bad == 0)
    throw base::ConfigError(
        fmt::format("classifier: got {} good and {} bad examples with words, expected both", good, bad));
}

double margin_of(const std::vector<float>& weights, double bias, const std::vector<uint32_t>& features) {
  double sum = 0.0;
  for (const uint32_t feature : features) sum += static_cast<double>(weights[feature]);
  return bias + sum / std::sqrt(static_cast<double>(features.size()));
}

double logistic(double margin) {
  return 1.0 / (1.0 + std::exp(-margin));
}

// AdaGrad: each weight's step falls with the root of the sum of its squared gradients.
class LinearTrainer {
 public:
  LinearTrainer(std::vector<float>& weights, double& bias, double learning_rate)
      : weights_(weights), bias_(bias), squares_(weights.size(), 0.0F), learning_rate_(learning_rate) {}

  void step(const LinearExample& example, double class_weight) {
    const double p = logistic(margin_of(weights_, bias_, example.features));
    const double slope = class_weight * (p - (example.is_good ? 1.0 : 0.0));
    const double each = slope / std::sqrt(static_cast<double>(example.features.size()));
    for (const uint32_t feature : example.features) {
      squares_[feature] += static_cast<float>(each * each);
      weights_[feature] -= static_cast<float>(learning_rate_ * each /
                                              std::sqrt(static_cast<double>(squares_[feature]) + 1e-10));
    }
    bias_squares_ += slope * slope;
    bias_ -= learning_rate_ * slope / std::sqrt(bias_squares_ + 1e-10);
  }

 private:
  std::vector<float>& weights_;
  double& bias_;
  std::vector<float> squares_;
  double bias_squares_ = 0.0;
  double learning_rate_;
};

}  // namespace

double area_under_curve(const std::vector<double>& good, const std::vector<double>& bad) {
  if (good.empty() || bad.empty()) return NAN;
  std::vector<double> sorted = bad;
  std::sort(sorted.begin(), sorted.end());
  double pairs = 0.0;
  for (const double value : good) {
    const auto [below, above] = std::equal_range(sorted.begin(), sorted.end(), value);
    pairs += static_cast<double>(below - sorted.begin()) + 0.5 * static_cast<double>(above - below);
  }
  return pairs / static_cast<double>(good.size()) / static_cast<double>(bad.size());
}

LinearModel train_classifier(std::span<const std::string> good, std::span<const std::string> bad,
                             const ClassifierTraining& options) {
  check_options(options.features);
  std::vector<LinearExample> training, held_out;
  size_t counts[2] = {};  // with words: bad, good
  for (const bool is_good : {true, false}) {
    const std::span<const std::string> texts = is_good ? good : bad;
    std::vector<LinearExample> examples;
    for (const std::string& text : texts)
      if (std::vector<uint32_t> features = features_of(text, options.features); !features.empty())
        examples.push_back({std::move(features), is_good});
    counts[is_good] = examples.size();
    const std::vector<size_t> order =
        examples.empty()
            ? std::vector<size_t>()
            : shuffled(examples.size(), options.seed, is_good ? "classifier.good" : "classifier.bad");
    const auto aside = static_cast<size_t>(options.held_out * static_cast<double>(examples.size()));
    for (size_t i = 0; i < order.size(); ++i)
      (i < aside ? held_out : training).push_back(std::move(examples[order[i]]));
  }
  check_training(options, counts[1], counts[0]);

  LinearModel model;
  model.features_ = options.features;
  model.documents_ = static_cast<int64_t>(counts[0] + counts[1]);
  model.weights_.assign(size_t{1} << options.features.bits, 0.0F);
  double class_weights[2] = {};
  for (const LinearExample& example : training) class_weights[example.is_good] += 1.0;
  for (double& weight : class_weights) weight = static_cast<double>(training.size()) / 2.0 / weight;
  LinearTrainer trainer(model.weights_, model.bias_, options.learning_rate);
  const base::RandomStream orders(options.seed, "classifier.order");
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const base::Philox4 words = orders.block(static_cast<uint64_t>(epoch), 0);
    const base::Permutation order(training.size(), words[0] | (uint64_t{words[1]} << 32));
    for (size_t i = 0; i < training.size(); ++i) {
      const LinearExample& example = training[static_cast<size_t>(order(i))];
      trainer.step(example, class_weights[example.is_good]);
    }
  }
  std::vector<double> scores[2];
  for (const LinearExample& example : held_out)
    scores[example.is_good].push_back(margin_of(model.weights_, model.bias_, example.features));
  model.held_out_auc_ = area_under_curve(scores[1], scores[0]);
  return model;
}

double LinearModel::probability(std::string_view text) const {
  const std::vector<uint32_t> features = features_of(text, features_);
  return features.empty() ? NAN : logistic(margin_of(weights_, bias_, features));
}

}  // namespace athanor::corpus::classifier
