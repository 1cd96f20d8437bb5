// How well a model predicts whole documents, each on its own.
//
//   DocumentScorer scorer(model, arena, {.context = 256, .batch = 4, .before = {end_of_text}},
//                         [&](const DocumentScore& score) { print(score); });
//   scorer.add({.file = "a.jsonl", .line = 3, .bytes = 120}, ids);
//   scorer.finish();
//
// Every token of a document is predicted exactly once. `before` stands in front of each document and is not predicted;
// where it is empty, nothing predicts the first token, which does not count. A document with more tokens than the
// context is read in windows of that many inputs: each window moves on by `stride` tokens and predicts those that no
// window did, so all but the first `context` are predicted from at least context - stride + 1 tokens before them. The
// last window is as long as the others.
//
// Scores come in the order of add(), as soon as they are known. Several windows share a forward pass; shorter ones are
// filled up behind their end, which a causal model cannot see. Thread rule: one thread per model. Errors: an id outside
// the vocabulary, a context that is none of the model's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/models/model.h"

namespace athanor {

struct DocumentScore {
  std::string file;
  int64_t line = 0;       // where the document begins; 0: it is the whole file
  std::string id = {};    // what its corpus calls it, if it does
  int64_t bytes = 0;      // of its text
  int64_t tokens = 0;     // predicted
  double loss_sum = 0.0;  // nats over those

  double loss() const;  // nats per token
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
  void add(const DocumentScore& other);  // sums; keeps its own place
};

struct DocumentScorerOptions {
  int64_t context = 0;  // inputs of a window
  int64_t stride = 0;   // 1 to context; 0: context
  int64_t batch = 4;    // windows in one forward pass
  std::vector<int32_t> before;
};

class DocumentScorer {
 public:
  DocumentScorer(const Model& model, Arena& arena, DocumentScorerOptions options,
                 std::function<void(const DocumentScore&)> done);
  void add(DocumentScore place, std::span<const int32_t> ids);
  void finish();  // of what waits for company

 private:
  struct Waiting {
    DocumentScore score;
    int64_t windows = 0;  // of its own that wait
  };
  struct Window {
    size_t document;           // number among all that were added
    std::vector<int32_t> ids;  // inputs and the last target
    int64_t counted = 0;       // of the last targets
  };
  void run_windows();
  void hand_out();

  const Model& model_;
  Arena& arena_;
  DocumentScorerOptions options_;
  std::function<void(const DocumentScore&)> done_;
  std::deque<Waiting> documents_;
  size_t handed_out_ = 0;  // documents before documents_.front()
  std::vector<Window> windows_;
};

}  // namespace athanor
