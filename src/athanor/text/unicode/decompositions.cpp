#include "athanor/text/unicode/decompositions.h"

#include <algorithm>

#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {
namespace {

constexpr uint32_t kWordBits = 21, kGapBits = 13, kSizeBits = 5;
constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kNumL = 19, kNumV = 21, kNumT = 28;

uint64_t key_of(uint32_t first, uint32_t second) {
  return uint64_t{first} << 32 | second;
}

}  // namespace

Decompositions::Decompositions() {
  read(kCanonical, kCanonicalSize, canonical_);
  read(kCompatibility, kCompatibilitySize, compatibility_);
  // The last target composes with what all before it compose to: shorter ones first.
  std::ranges::stable_sort(composed_, {}, [this](uint32_t c) { return canonical(c).size(); });
  for (const uint32_t c : composed_) {
    const auto targets = canonical(c);
    uint32_t first = targets[0];
    for (size_t i = 1; i + 1 < targets.size(); ++i) first = compose(first, targets[i]);
    pairs_[key_of(first, targets.back())] = c;
  }
}

void Decompositions::read(const uint64_t* packed, size_t size, Table& table) {
  const size_t num_words = 3 * size;
  const auto word = [packed](size_t i) {
    return static_cast<uint32_t>(packed[i / 3] >> (kWordBits * (i % 3))) & ((1u << kWordBits) - 1);
  };
  uint32_t c = 0;
  for (size_t at = 0; at < num_words;) {
    const uint32_t head = word(at++);
    const uint32_t num_targets = head >> kGapBits & ((1u << kSizeBits) - 1);
    if (num_targets == 0) {
      if (at < num_words) c += word(at++);
      continue;
    }
    c += head & ((1u << kGapBits) - 1);
    const uint32_t count = head >> 18 & 1 ? word(at++) : 1;
    if (head >> 19 & 1) composed_.push_back(c);
    for (uint32_t i = 0; i < count; ++i, ++c) {
      table[c] = {static_cast<uint32_t>(targets_.size()), num_targets};
      for (uint32_t t = 0; t < num_targets; ++t) targets_.push_back(word(at + t) + (t == 0 ? i : 0));
    }
    at += num_targets;
  }
}

std::span<const uint32_t> Decompositions::find(const Table& table, uint32_t c) const {
  const auto found = table.find(c);
  if (found == table.end()) return {};
  return std::span(targets_).subspan(found->second.begin, found->second.size);
}

std::span<const uint32_t> Decompositions::compatibility(uint32_t c) const {
  const auto targets = find(compatibility_, c);
  return targets.empty() ? canonical(c) : targets;
}

uint32_t Decompositions::compose(uint32_t first, uint32_t second) const {
  if (first >= kLBase && first < kLBase + kNumL && second >= kVBase && second < kVBase + kNumV)
    return kSBase + ((first - kLBase) * kNumV + second - kVBase) * kNumT;
  const bool is_open_syllable =
      first >= kSBase && first < kSBase + kNumL * kNumV * kNumT && (first - kSBase) % kNumT == 0;
  if (is_open_syllable && second > kTBase && second < kTBase + kNumT) return first + second - kTBase;
  const auto found = pairs_.find(key_of(first, second));
  return found == pairs_.end() ? 0 : found->second;
}

const Decompositions& decompositions() {
  static const Decompositions all;
  return all;
}

}  // namespace athanor::text::unicode
