// How the elements of a collective are cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace athanor {

struct Piece {
  int64_t first, length;
};

inline int64_t pieces_of(int64_t count, int64_t per_piece) {
  return (count + per_piece - 1) / per_piece;
}

// Piece k of `count` elements.
inline Piece piece_of(int64_t count, int64_t per_piece, int64_t k) {
  return {k * per_piece, std::min(per_piece, count - k * per_piece)};
}

// The part of a piece that rank r sums: whole cache lines, so that two ranks never write to one.
inline Piece slice_of(int64_t length, size_t element, int size, int r) {
  const auto line = static_cast<int64_t>(64 / element);
  const int64_t each = ((length + size - 1) / size + line - 1) / line * line;
  const int64_t first = std::min(r * each, length);
  return {first, std::min(each, length - first)};
}

}  // namespace athanor
