#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/corpus/perplexity/ngram_model.h"
#include "athanor/corpus/perplexity/ngram_words.h"

namespace athanor::corpus::perplexity {
namespace {

// The n-grams of one order; the arrays go with the table's entries.
struct NgramLevel {
  NgramTable table;
  std::vector<uint32_t> ends;    // where one of its occurrences ends in the text
  std::vector<uint32_t> counts;  // raw, then adjusted
};

struct NgramPlace {
  uint64_t key;
  uint32_t end;
  bool operator<(const NgramPlace& other) const {
    return key != other.key ? key < other.key : end < other.end;
  }
};

using NgramText = std::vector<uint64_t>;

uint64_t key_of(const NgramText& text, size_t end, size_t size) {
  uint64_t key = text[end];
  for (size_t i = 1; i < size; ++i) key = longer_ngram_key(key, text[end - i]);
  return key;
}

bool begins_a_sentence(const NgramText& text, size_t end, size_t size) {
  return text[end + 1 - size] == kSentenceStart;
}

NgramLevel count_ngrams(const NgramText& text, size_t size) {
  std::vector<NgramPlace> places;
  places.reserve(text.size());
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kSentenceStart) start = i;
    if (i + 1 >= start + size) places.push_back({key_of(text, i, size), static_cast<uint32_t>(i)});
  }
  std::sort(places.begin(), places.end());
  size_t different = 0;
  for (size_t i = 0; i < places.size(); ++i) different += i == 0 || places[i].key != places[i - 1].key;
  NgramLevel level;
  std::vector<NgramEntry> entries;
  entries.reserve(different);
  level.ends.reserve(different);
  level.counts.reserve(different);
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i].key != places[i - 1].key) {
      entries.push_back({.key = places[i].key});
      level.ends.push_back(places[i].end);
      level.counts.push_back(0);
    }
    ++level.counts.back();
  }
  level.table = NgramTable(std::move(entries));
  return level;
}

// Counts of all but the longest order become numbers of different words before.
void adjust_counts(const NgramText& text, size_t size, NgramLevel& level, const NgramLevel& longer) {
  for (size_t i = 0; i < level.counts.size(); ++i)
    if (!begins_a_sentence(text, level.ends[i], size)) level.counts[i] = 0;
  for (const uint32_t end : longer.ends) ++level.counts[level.table.index_of(key_of(text, end, size))];
}

using NgramDiscounts = std::array<double, 4>;  // of counts 0, 1, 2, 3 and more

NgramDiscounts discounts_of(const NgramText& text, size_t size, const NgramLevel& level) {
  std::array<double, 5> with_count{};
  for (size_t i = 0; i < level.counts.size(); ++i)
    if (level.counts[i] <= 4 && !(size == 1 && begins_a_sentence(text, level.ends[i], size)))
      with_count[level.counts[i]] += 1.0;
  NgramDiscounts discounts{};
  const double y = with_count[1] / (with_count[1] + 2.0 * with_count[2]);
  for (size_t i = 1; i <= 3; ++i) {
    const auto count = static_cast<double>(i);
    discounts[i] = count - (count + 1.0) * y * with_count[i + 1] / with_count[i];
    if (!(with_count[i + 1] > 0.0 && discounts[i] > 0.0 && discounts[i] < count)) return {0.0, 0.5, 1.0, 1.5};
  }
  return discounts;
}

struct NgramContext {
  double total = 0.0, discounted = 0.0;
  void add(uint32_t count, const NgramDiscounts& discounts) {
    total += count;
    discounted += discounts[std::min(count, 3U)];
  }
  double backoff() const { return discounted / total; }
};

}  // namespace

NgramTrainer::NgramTrainer(const NgramOptions& options) : options_(options) {
  if (options.order < 1 || options.order > kMostNgramOrder)
    throw base::ConfigError(fmt::format("perplexity.order: got {}, expected a value from 1 to {}",
                                        options.order, kMostNgramOrder));
  constexpr int64_t kMostPlaces = int64_t{1} << 31;  // with marks they are numbered in 32 bits
  if (options.most_words < 1 || options.most_words > kMostPlaces)
    throw base::ConfigError(fmt::format("perplexity.most_words: got {}, expected a value from 1 to {}",
                                        options.most_words, kMostPlaces));
}

void NgramTrainer::add(std::string_view document) {
  bool in_sentence = false;
  for_each_ngram_word(document, options_.lowercase, [&](std::string_view word) {
    if (!in_sentence) words_.push_back(kSentenceStart);
    in_sentence = word != kEndOfLineWord;
    words_.push_back(in_sentence ? ngram_word_hash(word) : kSentenceEnd);
    ++count_;
  });
  if (count_ > options_.most_words)
    throw base::ConfigError(
        fmt::format("the reference: got more than {} words, expected at most that many", options_.most_words),
        fmt::format("give less text, or raise perplexity.most_words: a word takes up to {} bytes",
                    60 + 28 * options_.order));
}

NgramModel NgramTrainer::train() const {
  if (words_.empty()) throw base::ConfigError("the reference: got no words, expected some text");
  const auto order = static_cast<size_t>(options_.order);
  std::vector<NgramLevel> levels;
  for (size_t size = 1; size <= order; ++size) {
    levels.push_back(count_ngrams(words_, size));
    if (size > 1) adjust_counts(words_, size - 1, levels[size - 2], levels[size - 1]);
  }

  NgramModel model;
  model.lowercase_ = options_.lowercase;
  const size_t words = levels[0].counts.size() - 1;  // <s> is none
  model.vocabulary_ = static_cast<int64_t>(words) + 1;
  std::vector<double> shorter;  // p of the n-grams of the order before
  for (size_t size = 1; size <= order; ++size) {
    NgramLevel& level = levels[size - 1];
    std::vector<NgramEntry>& entries = level.table.entries();
    const NgramDiscounts discounts = discounts_of(words_, size, level);
    const auto context_of = [&](size_t i) {
      return size == 1 ? 0 : levels[size - 2].table.index_of(key_of(words_, level.ends[i] - 1, size - 1));
    };
    const auto is_start_mark = [&](size_t i) { return size == 1 && entries[i].key == kSentenceStart; };
    std::vector<NgramContext> contexts(size == 1 ? 1 : levels[size - 2].counts.size());
    for (size_t i = 0; i < entries.size(); ++i)
      if (!is_start_mark(i)) contexts[context_of(i)].add(level.counts[i], discounts);
    if (size > 1) {
      std::vector<NgramEntry>& before = levels[size - 2].table.entries();
      for (size_t i = 0; i < before.size(); ++i)
        if (contexts[i].total > 0.0)
          before[i].log_backoff = static_cast<float>(std::log(contexts[i].backoff()));
    } else {
      shorter.assign(1, 1.0 / static_cast<double>(model.vocabulary_));
      model.log_unknown_ = std::log(contexts[0].backoff() * shorter[0]);
    }
    std::vector<double> p(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      if (is_start_mark(i)) continue;
      const NgramContext& context = contexts[context_of(i)];
      const size_t suffix =
          size == 1 ? 0 : levels[size - 2].table.index_of(key_of(words_, level.ends[i], size - 1));
      p[i] = (level.counts[i] - discounts[std::min(level.counts[i], 3U)]) / context.total +
             context.backoff() * shorter[suffix];
      entries[i].log_prob = static_cast<float>(std::log(p[i]));
    }
    shorter = std::move(p);
  }
  for (NgramLevel& level : levels) model.tables_.push_back(std::move(level.table));
  return model;
}

}  // namespace athanor::corpus::perplexity
