// What characters decompose to and compose from, by Unicode 9.0 (normal_form.h).
//
//   decompositions().canonical(0xE9);        // {0x65, 0x301}; empty where it stays itself
//   decompositions().compose(0x65, 0x301);   // 0xE9; 0 where nothing is composed
//
// The tables are packed three words of 21 bits to a number: for each stretch of characters the gap since the one before
// (bits 0 to 12), how many targets (13 to 17), whether a count of characters follows (18; their targets move along) and
// whether the targets compose again (19); then the count and the targets. Without targets the next word is the gap.
// Thread rule: const, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::unicode {

class Decompositions {
 public:
  Decompositions();

  std::span<const uint32_t> canonical(uint32_t code_point) const { return find(canonical_, code_point); }
  // The canonical one where there is no other.
  std::span<const uint32_t> compatibility(uint32_t code_point) const;
  uint32_t compose(uint32_t first, uint32_t second) const;

 private:
  struct Targets {
    uint32_t begin, size;  // in targets_
  };
  using Table = std::unordered_map<uint32_t, Targets>;

  void read(const uint64_t* packed, size_t size, Table& table);
  std::span<const uint32_t> find(const Table& table, uint32_t code_point) const;

  Table canonical_, compatibility_;
  std::vector<uint32_t> targets_;
  std::vector<uint32_t> composed_;  // characters whose targets compose again
  std::unordered_map<uint64_t, uint32_t> pairs_;
};

const Decompositions& decompositions();  // unpacked at the first call

}  // namespace athanor::text::unicode
