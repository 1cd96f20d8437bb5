// The stage "perplexity": keeps documents that a reference text makes likely, by an n-gram model (ngram_model.h).
//
//   const std::unique_ptr<Stage> stage = make_perplexity({.model = "clean.ngram", .most = 800.0});
//   const std::unique_ptr<Stage> buckets = make_perplexity(
//       {.reference = {"wiki/"}, .head_most = 300.0, .middle_most = 700.0, .keep = {"head", "middle"}});
//
// Scores: perplexity = exp(-sum of ln p / words), with ends of lines among the words; perplexity.bits_per_byte = -sum of
// log2 p / bytes of the text. Both are NaN where a document has no words. Perplexity depends on the model and on how
// a language writes words: compare it only under one model and in one language.
// With thresholds for buckets (CCNet, Wenzek et al. 2020, which takes the terciles of a sample) there is a third score,
// perplexity.bucket: 0 head (perplexity at most head_most), 1 middle (at most middle_most), 2 tail.
// Rules: least <= perplexity <= most, and the bucket is one of keep.
// Thread rule: see stage.h. Errors: ConfigError for settings; those of NgramModel and for_each_document().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::perplexity {

struct PerplexityOptions {
  std::string model = {};                   // a file of NgramModel::write()
  std::vector<std::string> reference = {};  // or text to train one on at the start
  int64_t order = 5;
  bool lowercase = true;
  int64_t most_words = 20'000'000;
  double least = 0.0;
  double most = 0.0;  // 0: no limit
  double head_most = 0.0;
  double middle_most = 0.0;
  std::vector<std::string> keep = {};  // of head, middle, tail; empty: all
};

std::unique_ptr<Stage> make_perplexity(const PerplexityOptions& options);
const std::vector<config::Field<PerplexityOptions>>& perplexity_fields();

}  // namespace athanor::corpus::perplexity
