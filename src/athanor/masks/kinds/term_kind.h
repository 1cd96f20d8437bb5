// The kinds of terms that an attention pattern is made of (pattern.h), a file for each in this folder.
//
//   for (const TermKind* kind : term_kinds()) print(fmt::format("{}: {}", kind->form, kind->meaning));
//   const TermKind& band = *find_term_kind("band");
//   const std::unique_ptr<MaskRule> rule = band.make({256}, {.length = 4096});
//
// i is the position of a query, j that of a key, n the length of the sequence. Thread rule: constants and pure functions.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/masks/attention_mask.h"

namespace athanor::masks::kinds {

using Numbers = std::vector<int64_t>;  // of a term, with what it leaves out filled in
constexpr int64_t kMostOfNumber = int64_t{1} << 30;
constexpr size_t kAnyCount = ~size_t{0};

// Where a rule is made for: a head of a layer over a whole sequence.
struct TermPlace {
  int64_t length = 0, layer = 0, head = 0;
  uint64_t seed = 0;
  // For random alone, valid while the rule is made: the limits of its pattern, and its other terms that show.
  const MaskRule* limits = nullptr;
  const MaskRule* others = nullptr;
};

enum class TermUse : uint8_t {
  limits,  // a pair must satisfy all of these
  shows    // and at least one of these
};

struct TermKind {
  std::string_view name, form, meaning;
  TermUse use = TermUse::shows;
  bool is_causal = false;                // it shows no later key, whatever the length
  bool is_repeatable = false;            // with other numbers in one pattern
  size_t fewest = 0, most = 0;           // numbers
  std::array<int64_t, 2> left_out = {};  // what a number that is left out stands for
  // What the numbers should have been, or "" where they are right; each is from 1 to kMostOfNumber where there is none.
  std::string (*expected)(const Numbers&) = nullptr;
  // The length of the shortest sequence that is not narrower than the term.
  int64_t (*fewest_positions)(const Numbers&) = nullptr;
  std::unique_ptr<MaskRule> (*make)(const Numbers&, const TermPlace&) = nullptr;
};

extern const TermKind kCausal, kPrefix, kChunk, kDocuments;
extern const TermKind kFull, kBand, kWindow, kDilated, kGlobal, kBlock, kBlockBand, kRandom, kStrided, kFixed;

// In the order in which a pattern's text has them.
std::span<const TermKind* const> term_kinds();
const TermKind* find_term_kind(std::string_view name);  // nullptr: none

}  // namespace athanor::masks::kinds
