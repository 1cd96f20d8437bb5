// Rows of 64 keys as bits, for the rules of this folder.
//
//   row = keys_between(query - 256, query + 1, first_key);   // the keys query - 256 ... query, those of the row
//
// Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::masks::kinds {

// Bit j: begin <= first_key + j < end.
inline uint64_t keys_between(int64_t begin, int64_t end, int64_t first_key) {
  const int64_t from = std::clamp<int64_t>(begin - first_key, 0, 64);
  const int64_t to = std::clamp<int64_t>(end - first_key, 0, 64);
  if (to <= from) return 0;
  return (~uint64_t{0} >> (64 - (to - from))) << from;
}

// Bits 0, step, 2 step, ...
inline uint64_t every_bit_of(int64_t step) {
  uint64_t bits = 0;
  for (int64_t bit = 0; bit < 64; bit += step) bits |= uint64_t{1} << bit;
  return bits;
}

// `every` of every_bit_of(step): bit j: first_key + j and `position` leave the same remainder.
inline uint64_t keys_in_step(uint64_t every, int64_t step, int64_t position, int64_t first_key) {
  const int64_t remainder = (position - first_key) % step,
                first = remainder < 0 ? remainder + step : remainder;
  return first < 64 ? every << first : 0;
}

}  // namespace athanor::masks::kinds
