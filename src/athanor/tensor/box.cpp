#include "athanor/tensor/box.h"

namespace athanor {

Box whole_box(const Shape& shape) {
  Box box{{}, shape};
  for (int d = 0; d < shape.dims(); ++d) box.offset.push_back(0);
  return box;
}

bool is_inside(const Box& box, const Shape& whole) {
  if (box.offset.dims() != whole.dims() || box.extent.dims() != whole.dims()) return false;
  for (int d = 0; d < whole.dims(); ++d)
    if (box.extent[d] > whole[d] || box.offset[d] > whole[d] - box.extent[d]) return false;
  return true;
}

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.extent.dims(); ++d)
    if (a.offset[d] + a.extent[d] <= b.offset[d] || b.offset[d] + b.extent[d] <= a.offset[d]) return false;
  return a.extent.numel() > 0 && b.extent.numel() > 0;
}

BoxRuns::BoxRuns(const Shape& whole, const Box& box) : whole_(whole), box_(box) {
  check(is_inside(box, whole), "box: got {} at {}, expected it inside of {}", box.extent, box.offset, whole);
  for (int d = whole.dims() - 1; d >= 0; --d) {
    leading_ = d;
    column_ = box.offset[d] * row_;
    run_ = box.extent[d] * row_;
    row_ *= whole[d];
    if (box.extent[d] != whole[d]) break;
  }
}

int64_t BoxRuns::in_whole(int64_t in_box) const {
  int64_t row = in_box / run_, place = 0, stride = row_;
  for (int d = leading_ - 1; d >= 0; --d) {
    place += (box_.offset[d] + row % box_.extent[d]) * stride;
    row /= box_.extent[d];
    stride *= whole_[d];
  }
  return place + column_ + in_box % run_;
}

int64_t BoxRuns::row_in_box(int64_t row) const {
  int64_t place = 0, stride = 1;
  for (int d = leading_ - 1; d >= 0; --d) {
    const int64_t index = row % whole_[d] - box_.offset[d];
    if (index < 0 || index >= box_.extent[d]) return -1;
    row /= whole_[d];
    place += index * stride;
    stride *= box_.extent[d];
  }
  return place;
}

}  // namespace athanor
