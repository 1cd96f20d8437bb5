// Where a word may be cut without a change of its BPE ids: between two characters a and b such that no merge has a left part
// that ends in a and a right part that begins with b. No symbol can then grow over that place, and the merges on its two
// sides do not depend on each other, so each part is encoded alone, and a text without spaces has parts that a
// cache knows.
//
//   SafeCuts cuts(num_merges);
//   cuts.add("th", "e");                // a merge
//   cuts.part_end("the end", 0);        // 3: no merge joins "e" and " "
//
// It errs to one side: some safe places are not known as such. Thread rule: const methods from any thread.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "athanor/text/models/pair_set.h"

namespace athanor::text::models {

class SafeCuts {
 public:
  explicit SafeCuts(size_t num_merges) : others_(num_merges) {}

  void add(std::string_view left, std::string_view right);
  // The end of the part of the word that begins at `at`.
  size_t part_end(std::string_view word, size_t at) const;

 private:
  // ASCII and the "▁" that stands for a space have an exact table.
  static constexpr uint32_t kNumCommon = 129;
  static uint32_t common(uint32_t c) { return c < 128 ? c : c == 0x2581 ? 128 : kNumCommon; }
  bool may_join(uint32_t left, uint32_t right) const;

  std::array<std::bitset<kNumCommon>, kNumCommon> joined_{};
  PairSet others_;  // of code points
};

}  // namespace athanor::text::models
