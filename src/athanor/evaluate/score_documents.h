// Scores documents: loss, perplexity and bits per byte of each document, by a sliding window.
//
//   DocumentScorer scorer(model, arena, {.context = 256, .batch = 4, .before = {end_of_text}},
//                         [&](const DocumentScore& score) { print(score); });
//   scorer.add({.file = "a.jsonl", .line = 3, .bytes = 120}, ids);
//   scorer.finish();
//
// Every token of a document is predicted exactly once. `before` is put in front of each document and is not predicted;
// if it is empty, the first token of a document is not predicted either. A document longer than `context` is read in
// windows of `context` inputs. Each window starts `stride` tokens after the one before and predicts the tokens that no
// window has predicted yet. So every token after the first `context` is predicted from at least context - stride + 1
// tokens. The last window has full length, too.
//
// Scores come in the order of add(), as soon as they are known. Several windows share a forward pass; shorter windows
// are padded at the end, which a causal model does not see. Thread rule: one thread per model. Errors: Error for an id
// outside the vocabulary, or a context below 1 or above the model's max_seq_len.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/models/model.h"

namespace athanor::evaluate {

struct DocumentScore {
  std::string file;
  int64_t line = 0;       // where the document begins; 0: it is the whole file
  std::string id = {};    // its "id" in the corpus, if there is one
  int64_t bytes = 0;      // of its text
  int64_t tokens = 0;     // predicted
  double loss_sum = 0.0;  // nats, over the predicted tokens

  double loss() const;  // nats per token
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
  void add(const DocumentScore& other);  // adds bytes, tokens and loss_sum
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
  void finish();  // runs the windows that wait for a full batch

 private:
  struct Waiting {
    DocumentScore score;
    int64_t windows = 0;  // windows of the document that wait
  };
  struct Window {
    size_t document;           // number among all that were added
    std::vector<int32_t> ids;  // inputs and the last target
    int64_t counted = 0;       // this many of the last targets count
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

}  // namespace athanor::evaluate
