// What a text is like: how much of it there is, of how many words, how much of it repeats, in which languages.
//
//   TextStats stats;
//   stats.add("It rains. It pours.");
//   stats.words();  stats.compression();  stats.languages();
//
// Quality and diversity in numbers: `distinct_words` is the share of different ones among the first kStatsWords words;
// `compression` is how many times smaller zstd makes the first kStatsBytes bytes (prose has about 3, what repeats more);
// `copies` counts documents that are equal to an earlier one. Words are those of heuristics/text_view.h, languages CLD2's.
// Memory: 8 bytes a document, and 8 for each of the first words. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "athanor/corpus/passes/histogram.h"

namespace athanor::corpus::report {

constexpr uint64_t kStatsWords = 10'000'000;
constexpr uint64_t kStatsBytes = uint64_t{64} << 20;

class TextStats {
 public:
  void add(std::string_view text);

  uint64_t documents() const { return documents_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t characters() const { return characters_; }
  uint64_t words() const { return words_; }
  uint64_t lines() const { return lines_; }
  uint64_t copies() const { return copies_; }
  double distinct_words() const;  // NaN: no word
  double compression() const;     // NaN: no text
  const Histogram& document_bytes() const { return document_bytes_; }
  // Bytes of documents by language, "und" for none.
  const std::map<std::string, uint64_t>& languages() const { return languages_; }

 private:
  uint64_t documents_ = 0, bytes_ = 0, characters_ = 0, words_ = 0, lines_ = 0, copies_ = 0, looked_at_ = 0;
  std::unordered_set<uint64_t> seen_words_, seen_documents_;
  uint64_t raw_ = 0, compressed_ = 0;
  std::string waiting_;  // not yet compressed
  Histogram document_bytes_;
  std::map<std::string, uint64_t> languages_;
};

}  // namespace athanor::corpus::report
