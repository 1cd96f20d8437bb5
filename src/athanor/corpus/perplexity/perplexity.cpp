#include "athanor/corpus/perplexity/perplexity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/corpus/perplexity/ngram_model.h"
#include "athanor/documents/document_reader.h"

namespace athanor::corpus::perplexity {
namespace {

NgramModel model_of(const PerplexityOptions& options) {
  if (options.model.empty() == options.reference.empty())
    throw base::ConfigError(
        fmt::format("perplexity: got {} model and reference, expected one of them",
                    options.model.empty() ? "neither" : "both"),
        "model = \"clean.ngram\", or reference = [\"clean.txt\"] to train one at the start");
  if (!options.model.empty()) return NgramModel::read(base::system_env(), options.model);
  NgramTrainer trainer(
      {.order = options.order, .lowercase = options.lowercase, .most_words = options.most_words});
  for (const std::string& path : options.reference)
    documents::for_each_document(
        base::system_env(), path, {},
        [&](std::string_view text, const documents::DocumentPlace&) { trainer.add(text); });
  return trainer.train();
}

const std::vector<std::string>& bucket_names() {
  static const std::vector<std::string> names = {"head", "middle", "tail"};
  return names;
}

size_t bucket_number(const std::string& name) {
  const auto at = std::find(bucket_names().begin(), bucket_names().end(), name);
  if (at != bucket_names().end()) return static_cast<size_t>(at - bucket_names().begin());
  const std::string nearest = base::nearest_name(name, bucket_names());
  throw base::ConfigError(fmt::format("perplexity.keep: got \"{}\", expected head, middle or tail", name),
                          nearest.empty() ? "" : fmt::format("did you mean \"{}\"?", nearest));
}

class PerplexityStage : public Stage {
 public:
  explicit PerplexityStage(const PerplexityOptions& options)
      : head_most_(options.head_most), middle_most_(options.middle_most) {
    if (!(options.least >= 0.0) || !(options.most >= 0.0) ||
        (options.most > 0.0 && options.most < options.least))
      throw base::ConfigError(
          fmt::format("perplexity.most: got {} beside least = {}, expected at least that much", options.most,
                      options.least));
    scores_ = {{"perplexity", "exp(-sum of ln p / words), ends of lines being words"},
               {"perplexity.bits_per_byte", "-sum of log2 p / bytes of the text"}};
    if (options.least > 0.0 || options.most > 0.0)
      rules_.push_back({"perplexity", 0, options.least > 0.0 ? options.least : -INFINITY,
                        options.most > 0.0 ? options.most : INFINITY});
    add_buckets(options);
    model_ = std::make_unique<NgramModel>(model_of(options));
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    std::fill(values.begin(), values.end(), NAN);
    const NgramScore score = model_->score(document.text);
    if (score.words == 0) return;
    values[0] = std::exp(-score.log_prob / static_cast<double>(score.words));
    values[1] = -score.log_prob / std::numbers::ln2 / static_cast<double>(document.text.size());
    if (values.size() > 2) values[2] = values[0] <= head_most_ ? 0.0 : values[0] <= middle_most_ ? 1.0 : 2.0;
  }

 private:
  void add_buckets(const PerplexityOptions& options) {
    if (head_most_ == 0.0 && middle_most_ == 0.0) {
      if (!options.keep.empty())
        throw base::ConfigError(
            "perplexity.keep: got buckets without thresholds, expected both",
            "set head_most and middle_most, the terciles of the perplexities in a report");
      return;
    }
    if (!(head_most_ > 0.0 && middle_most_ >= head_most_))
      throw base::ConfigError(
          fmt::format("perplexity.middle_most: got {} beside head_most = {}, expected at least "
                      "that much, both above 0",
                      middle_most_, head_most_));
    scores_.push_back({"perplexity.bucket", fmt::format("0: perplexity at most {}, 1: at most {}, 2: more",
                                                        head_most_, middle_most_)});
    if (options.keep.empty()) return;
    std::vector<size_t> kept;
    for (const std::string& name : options.keep) kept.push_back(bucket_number(name));
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (kept.back() - kept.front() + 1 != kept.size())
      throw base::ConfigError("perplexity.keep: got head and tail, expected buckets next to each other");
    rules_.push_back(
        {"perplexity.bucket", 2, static_cast<double>(kept.front()), static_cast<double>(kept.back())});
  }

  std::vector<Score> scores_;
  std::vector<Rule> rules_;
  double head_most_, middle_most_;
  std::unique_ptr<NgramModel> model_;
};

}  // namespace

std::unique_ptr<Stage> make_perplexity(const PerplexityOptions& options) {
  return std::make_unique<PerplexityStage>(options);
}

const std::vector<config::Field<PerplexityOptions>>& perplexity_fields() {
  using O = PerplexityOptions;
  static const std::vector<config::Field<O>> fields = {
      {"perplexity",
       "model",
       "file of an n-gram model",
       "Train it once where several builds use it; it holds its order and case.",
       config::slot_of<&O::model>,
       {.is_path = true}},
      {"perplexity",
       "reference",
       "files or folders of clean text that a model is trained on at the start",
       "A few million words in the language of the documents. Every start reads them again.",
       config::slot_of<&O::reference>,
       {.is_path = true}},
      {"perplexity",
       "order",
       "words of the longest n-gram, the predicted one included",
       "3 takes half the memory of 5 and tells clean text from noise nearly as well.",
       config::slot_of<&O::order>,
       {.range = {1, kMostNgramOrder}}},
      {"perplexity",
       "lowercase",
       "whether upper and lower case are the same",
       "false for a reference of a hundred million words.",
       config::slot_of<&O::lowercase>,
       {}},
      {"perplexity",
       "most_words",
       "words of the reference; more are refused",
       "A word takes up to 60 + 28 x order bytes in training.",
       config::slot_of<&O::most_words>,
       {.range = {1, 2147483648.0L}}},
      {"perplexity",
       "least",
       "perplexity that a document must have",
       "Drops text that repeats itself or the reference.",
       config::slot_of<&O::least>,
       {.range = {.low = 0}}},
      {"perplexity",
       "most",
       "perplexity that a document may have; 0: any",
       "Look at a report first: figures depend on the model.",
       config::slot_of<&O::most>,
       {.range = {.low = 0}}},
      {"perplexity",
       "head_most",
       "perplexity up to which a document is in the bucket head",
       "The lower tercile of a sample, as in CCNet.",
       config::slot_of<&O::head_most>,
       {.range = {.low = 0}}},
      {"perplexity",
       "middle_most",
       "perplexity up to which a document is in the bucket middle",
       "The upper tercile of a sample.",
       config::slot_of<&O::middle_most>,
       {.range = {.low = 0}}},
      {"perplexity",
       "keep",
       "buckets to keep: head, middle, tail; empty: all",
       "[\"head\", \"middle\"] drops a third.",
       config::slot_of<&O::keep>,
       {}},
  };
  return fields;
}

}  // namespace athanor::corpus::perplexity
