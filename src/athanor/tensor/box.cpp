#include "athanor/tensor/box.h"

namespace athanor::tensor {
namespace {

// Of the part of the tensor whose first indices are `index`.
void add_boxes(const Shape& shape, const Shape& index, int64_t first, int64_t last, std::vector<Box>& boxes) {
  if (first >= last) return;
  const int dim = index.dims();
  int64_t row = 1;  // elements of each of the next index
  for (int d = dim + 1; d < shape.dims(); ++d) row *= shape[d];
  const auto inside = [&](int64_t next, int64_t begin, int64_t end) {
    Shape below = index;
    below.push_back(next);
    add_boxes(shape, below, begin, end, boxes);
  };
  int64_t begin = first / row;
  const int64_t end = last / row;
  if (dim < shape.dims() && first % row != 0) {
    inside(begin, first % row, std::min(row, last - begin * row));
    ++begin;
  }
  if (begin < end || dim == shape.dims()) {
    Box box{index, {}};
    for (int d = 0; d < dim; ++d) box.extent.push_back(1);
    for (int d = dim; d < shape.dims(); ++d) {
      box.offset.push_back(d == dim ? begin : 0);
      box.extent.push_back(d == dim ? end - begin : shape[d]);
    }
    boxes.push_back(box);
  }
  if (dim < shape.dims() && begin <= end && last % row != 0) inside(end, 0, last % row);
}

}  // namespace

std::vector<Box> boxes_of(const Shape& shape, int64_t first, int64_t last) {
  check(0 <= first && first <= last && last <= shape.numel(), "box: got elements [{}, {}) of {}", first, last,
        shape);
  std::vector<Box> boxes;
  add_boxes(shape, {}, first, last, boxes);
  return boxes;
}

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

std::optional<Box> shared_box(const Box& a, const Box& b) {
  if (!overlap(a, b)) return std::nullopt;
  Box shared;
  for (int d = 0; d < a.extent.dims(); ++d) {
    const int64_t first = std::max(a.offset[d], b.offset[d]);
    shared.offset.push_back(first);
    shared.extent.push_back(std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]) - first);
  }
  return shared;
}

void copy_shared(const Shape& whole, const Box& from, const float* source, const Box& to, float* target) {
  const auto shared = shared_box(from, to);
  if (!shared) return;
  const BoxRuns source_runs(whole, from), target_runs(whole, to), runs(whole, *shared);
  runs.walk(0, shared->extent.numel(), [&](int64_t, int64_t in_whole, int64_t count) {
    source_runs.clip(in_whole, count, [&](int64_t in_source, int64_t offset, int64_t length) {
      target_runs.clip(in_whole + offset, length,
                       [&](int64_t in_target, int64_t skipped, int64_t shared_length) {
                         std::copy_n(source + in_source + skipped, shared_length, target + in_target);
                       });
    });
  });
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

}  // namespace athanor::tensor
