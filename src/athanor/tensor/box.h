// A Box is a rectangular part of a tensor: the elements [offset, offset + extent) in each dimension. A rank's shard of
// a parameter and a file's slice of a tensor are boxes.
//
//   const BoxRuns runs(whole_shape, box);
//   runs.walk(0, box.extent.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
//     std::copy_n(whole + in_whole, count, local + in_box);        // for a column shard: one row after the other
//   });
//
// The elements of a box are numbered in its own row-major order, as a dense tensor of shape `extent` holds them. A run
// is a sequence of elements that are contiguous both in the box and in the whole tensor. Errors: BoxRuns throws Error
// if the box is not inside the tensor. Thread rule: plain data and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "athanor/tensor/shape.h"

namespace athanor::tensor {

struct Box {
  Shape offset, extent;
  friend bool operator==(const Box&, const Box&) = default;
};

Box whole_box(const Shape& shape);
bool is_inside(const Box& box, const Shape& whole);
bool overlap(const Box& a, const Box& b);                   // do they have an element in common?
std::optional<Box> shared_box(const Box& a, const Box& b);  // the elements that they have in common

// The elements [first, last) of a flattened tensor as boxes, in order: the end of a row, complete rows, the start of a
// row.
std::vector<Box> boxes_of(const Shape& shape, int64_t first, int64_t last);

class BoxRuns {
 public:
  BoxRuns(const Shape& whole, const Box& box);  // Error unless the box is inside

  int64_t run() const { return run_; }     // elements of each run
  int64_t in_whole(int64_t in_box) const;  // index in the whole tensor of an element of the box
  // run(in_box, in_whole, count) for the elements [first, last) of the box, in order.
  template <typename Run>
  void walk(int64_t first, int64_t last, const Run& run) const {
    while (first < last) {
      const int64_t count = std::min(last - first, run_ - first % run_);
      run(first, in_whole(first), count);
      first += count;
    }
  }
  // of(in_box, offset, count) for every run of the box in the elements [first, first + count) of the whole tensor;
  // `offset` counts from `first`.
  template <typename Of>
  void clip(int64_t first, int64_t count, const Of& of) const {
    for (int64_t done = 0; done < count;) {
      const int64_t row = (first + done) / row_, column = (first + done) % row_;
      const int64_t piece = std::min(count - done, row_ - column);
      const int64_t low = std::max(column, column_), high = std::min(column + piece, column_ + run_);
      const int64_t box_row = low < high ? row_in_box(row) : -1;
      if (box_row >= 0) of(box_row * run_ + low - column_, done + low - column, high - low);
      done += piece;
    }
  }

 private:
  int64_t row_in_box(int64_t row) const;  // -1: the row is not in the box

  Shape whole_;
  Box box_;
  int leading_ = 0;     // the dimensions before this one number the rows
  int64_t row_ = 1;     // elements of a row of the whole tensor
  int64_t column_ = 0;  // where in a row the box begins
  int64_t run_ = 1;     // elements of a row that are in the box
};

// Copies the elements that two boxes of a tensor of shape `whole` have in common; `source` holds the elements of `from`,
// `target` those of `to`.
void copy_shared(const Shape& whole, const Box& from, const float* source, const Box& to, float* target);

}  // namespace athanor::tensor
