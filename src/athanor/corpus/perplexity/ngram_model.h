// A language model of n-grams with interpolated, modified Kneser-Ney smoothing: how likely is a text, by a reference?
//
//   const NgramModel model = NgramModel::train(documents, {.order = 5});
//   model.write(system_env(), "clean.ngram");
//   const NgramScore score = NgramModel::read(system_env(), "clean.ngram").score(text);
//   const double perplexity = std::exp(-score.log_prob / static_cast<double>(score.words));
//
// Each line is a sentence: <s>, the words of ngram_words.h, </s>. With h a context, h' the same without its first word,
// a(hw) the adjusted count of an n-gram and N_i(h) the number of words w with a(hw) = i (3: three and more):
//   p(w|h) = (a(hw) - D_i) / sum_x a(hx)  +  b(h) p(w|h')       b(h) = sum_i D_i N_i(h) / sum_x a(hx)
//   p(w|)  = (a(w) - D_i) / sum_x a(x)  +  b / V                V: the words, </s> and the unknown word, but not <s>
//   D_i    = i - (i + 1) Y t_(i+1) / t_i    Y = t_1 / (t_1 + 2 t_2)    t_i: n-grams of that order with a = i
// a is the count in the longest order, and of an n-gram that begins with <s>; else the number of different words before
// it. Where a t_i is 0 or a D_i not between 0 and i (little text), that order takes D = 0.5, 1, 1.5. After Chen &
// Goodman, "An empirical study of smoothing techniques for language modeling", 1998, and Heafield et al., "Scalable
// modified Kneser-Ney language model estimation", 2013. An order's p sums to one over V.
//
// Memory of training: at most 60 + 28 x order bytes a word, above the texts; NgramTrainer refuses more words than it was
// told. A model has at most 17 bytes for each different n-gram, and so has its file. The same texts give the same bytes.
//
// Thread rule: a model does not change; a trainer is for one thread. Errors: ConfigError for options and too much text;
// Error naming the file where it is damaged, cut or of another kind; IoError.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/corpus/perplexity/ngram_table.h"

namespace athanor::corpus::perplexity {

constexpr int64_t kMostNgramOrder = 10;

struct NgramOptions {
  int64_t order = 5;  // words, the predicted one included
  bool lowercase = true;
  int64_t most_words = 20'000'000;  // that training takes, ends of lines included
};

struct NgramScore {
  double log_prob = 0.0;  // natural, of all words and ends of lines
  int64_t words = 0;      // ends of lines included
};

class NgramModel {
 public:
  static NgramModel train(std::span<const std::string> documents, const NgramOptions& options);
  static NgramModel read(base::Env& env, const std::string& path);
  static NgramModel read(const base::ReadableFile& file, const std::string& name);
  void write(base::Env& env, const std::string& path) const;  // whole or not at all

  NgramScore score(std::string_view text) const;
  // Natural logarithm of p(word | context), whose last words count. Words as the model knows them; "<s>" and "</s>" are
  // the marks, and any other that it does not know is the unknown word.
  double log_prob(std::span<const std::string_view> context, std::string_view word) const;

  int64_t order() const { return static_cast<int64_t>(tables_.size()); }
  int64_t vocabulary() const { return vocabulary_; }  // V above
  bool lowercase() const { return lowercase_; }

 private:
  friend class NgramTrainer;
  struct Walk;

  std::vector<NgramTable> tables_;  // of n-grams with 1 ... order words
  int64_t vocabulary_ = 0;
  double log_unknown_ = 0.0;
  bool lowercase_ = true;
};

// Takes documents one by one and keeps eight bytes a word of them.
class NgramTrainer {
 public:
  explicit NgramTrainer(const NgramOptions& options);
  void add(std::string_view document);
  NgramModel train() const;

 private:
  NgramOptions options_;
  std::vector<uint64_t> words_;  // hashes: <s> w w </s> <s> w </s> ...
  int64_t count_ = 0;            // without <s>
};

// Hashes of words and of the marks, which no text can spell.
uint64_t ngram_word_hash(std::string_view word);
constexpr uint64_t kSentenceStart = 0x5B3C1F9A70D2E846U;
constexpr uint64_t kSentenceEnd = 0xA1D94E6735F20C8BU;

}  // namespace athanor::corpus::perplexity
