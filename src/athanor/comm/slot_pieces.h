// How the elements of a collective are cut, and what its ranks do with the pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "athanor/comm/shared_regions.h"
#include "athanor/comm/tree.h"

namespace athanor {

struct Piece {
  int64_t first, length;
};

inline size_t bytes_of(int64_t count, size_t element) {
  return static_cast<size_t>(count) * element;
}

inline int64_t pieces_of(int64_t count, int64_t per_piece) {
  return (count + per_piece - 1) / per_piece;
}

// Piece k of `count` elements.
inline Piece piece_of(int64_t count, int64_t per_piece, int64_t k) {
  return {k * per_piece, std::min(per_piece, count - k * per_piece)};
}

// The part of `length` elements that rank r works on: whole cache lines, so that two ranks never write to one.
inline Piece slice_of(int64_t length, size_t element, int size, int r) {
  const auto line = static_cast<int64_t>(64 / element);
  const int64_t each = ((length + size - 1) / size + line - 1) / line * line;
  const int64_t first = std::min(r * each, length);
  return {first, std::min(each, length - first)};
}

// What a rank does with piece k, whose data lies in slot `which` of every rank. `reduce` may be absent: all
// ranks call with the same arguments, so all agree on the events.
struct PieceSteps {
  int64_t pieces = 0;
  std::function<void(int64_t k, int which)> in, reduce, out;
  // The whole collective without slots, where the buffers that are read lie in memory all can address.
  std::function<void()> direct;
};

// A node of all_reduce_tree: its leaves, its rank, and where it lies in shared memory.
struct TreePart {
  LeafRange range;
  int owner;
  SharedPlace place;
};

}  // namespace athanor
