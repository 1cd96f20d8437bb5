#include "athanor/corpus/heuristics/grams.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "athanor/base/hash.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr uint64_t kGolden =
    0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads neighbours (Knuth, vol. 3, 6.4)

// An n-gram that is at least this long cannot equal another one unless they begin with the same bytes.
constexpr size_t kPrefixBytes = 16;

uint64_t prefix_mix(const char* bytes) {
  uint64_t a = 0, b = 0;
  std::memcpy(&a, bytes, 8);
  std::memcpy(&b, bytes + 8, 8);
  return (a ^ std::rotl(b * kGolden, 32)) * kGolden;
}

}  // namespace

void KeyTable::reset(size_t most_keys) {
  const size_t slots = std::bit_ceil(std::max<size_t>(2 * most_keys, 16));
  shift_ = 64 - std::countr_zero(slots);
  keys_.resize(slots);
  numbers_.assign(slots, 0);
  size_ = 0;
}

uint32_t KeyTable::number_of(uint64_t key) {
  size_t slot = key * kGolden >> shift_;
  while (numbers_[slot] != 0) {
    if (keys_[slot] == key) return numbers_[slot] - 1;
    slot = slot + 1 == keys_.size() ? 0 : slot + 1;
  }
  keys_[slot] = key;
  numbers_[slot] = ++size_;
  return size_ - 1;
}

Repeats duplicates_of(std::string_view text, std::span<const Span> spans) {
  KeyTable table;
  table.reset(spans.size());
  Repeats repeats;
  for (const Span& span : spans) {
    if (table.add(base::hash64(text.data() + span.begin, span.size))) continue;
    ++repeats.spans;
    repeats.chars += span.chars;
  }
  return repeats;
}

Numbered word_ids(std::string_view text, std::span<const Word> words) {
  KeyTable table;
  table.reset(words.size());
  Numbered numbered;
  numbered.ids.reserve(words.size());
  for (const Word& word : words)
    numbered.ids.push_back(table.number_of(base::hash64(text.data() + word.begin, word.size)));
  numbered.distinct = table.size();
  return numbered;
}

Grams::Grams(Numbered sequence) : ids_(std::move(sequence.ids)), grams_(ids_), repeated_(ids_.size()) {
  std::iota(repeated_.begin(), repeated_.end(), 0u);
  count_grams(sequence.distinct);
}

// A gram can repeat only if both grams that are one shorter do.
void Grams::next() {
  const auto n = static_cast<size_t>(++n_);
  const size_t left = ids_.size() < n ? 0 : ids_.size() - n + 1;
  table_.reset(repeated_.size());
  size_t kept = 0;
  for (const uint32_t i : repeated_) {
    if (i >= left) break;
    if (grams_[i + 1] == kOnce) {
      grams_[i] = kOnce;
      continue;
    }
    grams_[i] = table_.number_of(uint64_t{grams_[i]} << 32 | ids_[i + n - 1]);
    repeated_[kept++] = i;
  }
  repeated_.resize(kept);
  grams_.resize(left);
  count_grams(table_.size());
}

void Grams::count_grams(uint32_t distinct) {
  counts_.assign(distinct, 0);
  first_.assign(distinct, 0);
  for (const uint32_t i : repeated_)
    if (counts_[grams_[i]]++ == 0) first_[grams_[i]] = i;
  size_t kept = 0;
  for (const uint32_t i : repeated_) {
    if (counts_[grams_[i]] == 1)
      grams_[i] = kOnce;
    else
      repeated_[kept++] = i;
  }
  repeated_.resize(kept);
}

Grams::Top Grams::top() const {
  if (grams_.empty()) return {};
  Top top{0, 1};
  for (size_t gram = 0; gram < counts_.size(); ++gram)
    if (counts_[gram] > top.count) top = {first_[gram], counts_[gram]};
  return top;
}

JoinedWords::JoinedWords(std::string_view text, std::span<const Word> words, int least_n) {
  joined_.reserve(text.size());
  byte_offsets_.reserve(words.size() + 1);
  char_offsets_.reserve(words.size() + 1);
  uint32_t chars = 0;
  for (const Word& word : words) {
    byte_offsets_.push_back(static_cast<uint32_t>(joined_.size()));
    char_offsets_.push_back(chars);
    const std::string_view bytes = text.substr(word.begin, word.size);
    joined_.insert(joined_.end(), bytes.begin(), bytes.end());
    chars += word.chars;
  }
  byte_offsets_.push_back(static_cast<uint32_t>(joined_.size()));
  char_offsets_.push_back(chars);
  find_candidates(static_cast<size_t>(least_n));
}

// Most n-grams of prose begin with bytes that come nowhere else: they need no table. Two bits of a filter tell "once"
// from "more than once"; a clash of the filter only costs a look into the table. Short n-grams need the table always,
// and the longer n is, the fewer of them are short.
void JoinedWords::find_candidates(size_t least_n) {
  const size_t num_words = byte_offsets_.size() - 1;
  const size_t bits = std::bit_ceil(std::max<size_t>(8 * num_words, 64));
  const int shift = 64 - std::countr_zero(bits);
  std::vector<bool> once(bits), twice(bits);
  std::vector<uint64_t> mixes;
  mixes.reserve(num_words);
  for (size_t i = 0; i < num_words && byte_offsets_[i] + kPrefixBytes <= joined_.size(); ++i) {
    const uint64_t bit = prefix_mix(joined_.data() + byte_offsets_[i]) >> shift;
    if (once[bit])
      twice[bit] = true;
    else
      once[bit] = true;
    mixes.push_back(bit);
  }
  for (size_t i = 0; i + least_n <= num_words; ++i) {
    const bool shared = i < mixes.size() && twice[mixes[i]];
    if (!shared && byte_offsets_[i + least_n] - byte_offsets_[i] >= kPrefixBytes) continue;
    candidates_.push_back(static_cast<uint32_t>(i));
    shared_.push_back(shared);
  }
}

uint64_t JoinedWords::repeated_chars(int n) {
  const auto step = static_cast<size_t>(n);
  const size_t num_words = byte_offsets_.size() - 1;
  table_.reset(candidates_.size());
  uint64_t chars = 0;
  size_t next = 0;
  for (size_t k = 0; k < candidates_.size(); ++k) {
    const size_t i = candidates_[k];
    if (i + step > num_words) break;
    const size_t size = byte_offsets_[i + step] - byte_offsets_[i];
    if (i < next || (size >= kPrefixBytes && !shared_[k])) continue;
    if (table_.add(base::hash64(joined_.data() + byte_offsets_[i], size))) continue;
    chars += char_offsets_[i + step] - char_offsets_[i];
    next = i + step;
  }
  return chars;
}

}  // namespace athanor::corpus::heuristics
