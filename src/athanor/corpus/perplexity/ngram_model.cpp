#include "athanor/corpus/perplexity/ngram_model.h"

#include <array>
#include <cmath>
#include <limits>

#include "athanor/base/hash.h"
#include "athanor/corpus/perplexity/ngram_words.h"

namespace athanor::corpus::perplexity {

// The last words, and the n-grams that end with them.
struct NgramModel::Walk {
  using Keys = std::array<uint64_t, kMostNgramOrder>;

  explicit Walk(const NgramModel& of) : model(of) {}

  void begin() {
    count = 0;
    known = 0;
  }

  // Natural logarithm of p(word | the words before), which the word then joins.
  double step(uint64_t word) {
    const size_t order = model.tables_.size();
    uint64_t key = word;
    std::array<const NgramEntry*, kMostNgramOrder> now{};
    size_t found = 0;
    for (size_t size = 1; size <= order && size <= count + 1; ++size) {
      if (size > 1) key = longer_ngram_key(key, last[size - 2]);
      now[found] = model.tables_[size - 1].find(key);
      if (now[found] == nullptr) break;
      ++found;
    }
    double log_prob = found == 0 ? model.log_unknown_ : static_cast<double>(now[found - 1]->log_prob);
    for (size_t context = found == 0 ? 1 : found; context < order && context <= known; ++context)
      log_prob += static_cast<double>(entries[context - 1]->log_backoff);
    entries = now;
    known = found;
    for (size_t i = order - 1; i > 0; --i) last[i] = last[i - 1];
    last[0] = word;
    if (count < order) ++count;
    return log_prob;
  }

  const NgramModel& model;
  Keys last{};  // words, the newest first
  std::array<const NgramEntry*, kMostNgramOrder> entries{};
  size_t count = 0;  // words in last
  size_t known = 0;  // entries that are there
};

NgramModel NgramModel::train(std::span<const std::string> documents, const NgramOptions& options) {
  NgramTrainer trainer(options);
  for (const std::string& document : documents) trainer.add(document);
  return trainer.train();
}

NgramScore NgramModel::score(std::string_view text) const {
  NgramScore score;
  Walk walk(*this);
  bool in_sentence = false;
  for_each_ngram_word(text, lowercase_, [&](std::string_view word) {
    if (!in_sentence) {
      walk.begin();
      walk.step(kSentenceStart);
    }
    in_sentence = word != kEndOfLineWord;
    score.log_prob += walk.step(in_sentence ? ngram_word_hash(word) : kSentenceEnd);
    ++score.words;
  });
  return score;
}

double NgramModel::log_prob(std::span<const std::string_view> context, std::string_view word) const {
  const auto hash = [](std::string_view of) {
    return of == "<s>" ? kSentenceStart : of == "</s>" ? kSentenceEnd : ngram_word_hash(of);
  };
  if (word == "<s>") return -std::numeric_limits<double>::infinity();
  Walk walk(*this);
  for (const std::string_view before : context) walk.step(hash(before));
  return walk.step(hash(word));
}

uint64_t ngram_word_hash(std::string_view word) {
  return base::hash64(word);
}

}  // namespace athanor::corpus::perplexity
