// Pieces: how the elements of a collective are partitioned, and the steps of a collective per piece.
//
//   const Piece piece = piece_of(count, per_piece, k);            // piece k of pieces_of(count, per_piece)
//   const Piece mine = slice_of(piece.length, element, size, r);  // the slice of it that rank r sums
//
// Counts are elements. Thread rule: plain values and pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "athanor/comm/shm/shared_regions.h"
#include "athanor/comm/tree.h"

namespace athanor::comm::shm {

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

// Rank r's slice of `length` elements: whole cache lines, so that no two ranks write to the same line.
inline Piece slice_of(int64_t length, size_t element, int size, int r) {
  const auto line = static_cast<int64_t>(64 / element);
  const int64_t each = ((length + size - 1) / size + line - 1) / line * line;
  const int64_t first = std::min(r * each, length);
  return {first, std::min(each, length - first)};
}

// A collective as the steps of one rank for piece k, which uses slot `which` of every rank: `in` copies the rank's data
// into its slot, `reduce` (optional) sums a slice, `out` copies the result out. All ranks pass the same arguments, so
// all agree on the sequence of events.
struct PieceSteps {
  int64_t pieces = 0;
  std::function<void(int64_t k, int which)> in, reduce, out;
  // The whole collective without slots, if all buffers that ranks read lie in memory that every rank can address.
  std::function<void()> direct;
};

// A node of all_reduce_tree: its leaves, the rank that has it, and where it lies in shared memory.
struct TreePart {
  LeafRange range;
  int owner;
  SharedPlace place;
};

}  // namespace athanor::comm::shm
