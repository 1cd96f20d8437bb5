// The substrings that unigram training starts from. They are counted length by length: a string is counted
// only where the two strings one character shorter are frequent, which keeps rare ones out of memory.
#include <algorithm>

#include "athanor/base/hash.h"
#include "athanor/text/flat_map.h"
#include "athanor/text/trainers/unigram_trainer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

constexpr int64_t kMinCount = 2;

struct Substring {
  int64_t count = 0;
  std::string_view text;  // where it stands first
};
using Counts = FlatMap<Substring>;

std::vector<size_t> char_bounds(std::string_view word) {
  std::vector<size_t> bounds;
  for (size_t at = 0; at < word.size(); at += decode_utf8(word, at).size) bounds.push_back(at);
  bounds.push_back(word.size());
  return bounds;
}

bool is_frequent(const Counts& counts, std::string_view text) {
  const Substring* const found = counts.find(hash64(text));
  return found && found->count >= kMinCount;
}

Counts count_substrings(const std::vector<CountedWord>& words, size_t num_chars, const Counts& shorter) {
  Counts counts;
  for (const CountedWord& word : words) {
    const std::string_view text = word.text;
    const std::vector<size_t> bounds = char_bounds(text);
    for (size_t i = 0; i + num_chars < bounds.size(); ++i) {
      const auto part = [&](size_t from, size_t to) {
        return text.substr(bounds[from], bounds[to] - bounds[from]);
      };
      if (num_chars > 2 && !(is_frequent(shorter, part(i, i + num_chars - 1)) &&
                             is_frequent(shorter, part(i + 1, i + num_chars))))
        continue;
      Substring& entry = counts[hash64(part(i, i + num_chars))];
      if (entry.count == 0) entry.text = part(i, i + num_chars);
      entry.count += word.count;
    }
  }
  return counts;
}

}  // namespace

std::vector<ScoredPiece> frequent_substrings(const std::vector<CountedWord>& words, size_t max_pieces,
                                             int64_t max_chars) {
  std::vector<ScoredPiece> chars;
  count_substrings(words, 1, {}).for_each([&](uint64_t, const Substring& s) {
    chars.push_back({std::string(s.text), static_cast<double>(s.count)});
  });
  std::ranges::sort(chars, {}, &ScoredPiece::text);

  struct Candidate {
    int64_t weight;
    int64_t count;
    std::string_view text;
  };
  std::vector<Candidate> candidates;
  Counts shorter;
  for (size_t num_chars = 2; num_chars <= static_cast<size_t>(max_chars); ++num_chars) {
    Counts counts = count_substrings(words, num_chars, shorter);
    const size_t before = candidates.size();
    counts.for_each([&](uint64_t, const Substring& s) {
      if (s.count >= kMinCount)
        candidates.push_back({s.count * static_cast<int64_t>(num_chars), s.count, s.text});
    });
    if (candidates.size() == before) break;
    shorter = std::move(counts);
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.text < b.text;
  });
  if (candidates.size() > max_pieces) candidates.resize(max_pieces);
  for (const Candidate& c : candidates) chars.push_back({std::string(c.text), static_cast<double>(c.count)});
  return chars;
}

}  // namespace athanor::text::trainers
