// The lengths of a tensor's dimensions, outermost first; up to six of them, held in place.
//
//   Shape shape{2, 3, 4};   shape[-1] == 4;   shape.numel() == 24;   str(shape) == "[2,3,4]"
//
// Errors: Error for a dimension that does not exist, a negative length, or more than kMaxDims dimensions. Thread rule:
// plain data.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "athanor/base/check.h"

namespace athanor::tensor {

class Shape {
 public:
  static constexpr int kMaxDims = 6;
  static constexpr int64_t kMaxElements = int64_t{1} << 59;

  Shape() = default;
  Shape(std::initializer_list<int64_t> lengths) {
    for (const int64_t length : lengths) push_back(length);
  }
  int dims() const { return dims_; }
  int64_t operator[](int dim) const {  // negative dims count from the end
    const int index = dim < 0 ? dim + dims_ : dim;
    check(index >= 0 && index < dims_, "shape: dimension {} of a shape with {}", dim, dims_);
    return lengths_[static_cast<size_t>(index)];
  }
  void push_back(int64_t length) {
    check(dims_ < kMaxDims && length >= 0, "shape: got a dimension {} of length {}", dims_, length);
    lengths_[static_cast<size_t>(dims_++)] = length;
  }
  // 1 for a scalar. Error from 2^59 on, so that no count of bytes overflows.
  int64_t numel() const {
    int64_t product = 1;
    bool fits = true;
    for (int i = 0; i < dims_; ++i) {
      const int64_t length = lengths_[static_cast<size_t>(i)];
      if (length == 0) return 0;
      fits = fits && !__builtin_mul_overflow(product, length, &product) && product < kMaxElements;
    }
    if (!fits) fail_too_many();
    return product;
  }
  // The product of all dimensions but the last: how many rows a row-wise kernel sees.
  int64_t rows() const {
    return dims_ == 0 ? 1 : (lengths_[static_cast<size_t>(dims_ - 1)] == 0 ? 0 : numel() / (*this)[-1]);
  }
  Shape with_last(int64_t length) const {
    Shape shape = *this;
    check(dims_ > 0, "shape: a scalar has no last dimension");
    shape.lengths_[static_cast<size_t>(dims_ - 1)] = length;
    return shape;
  }
  Shape drop_last() const {
    check(dims_ > 0, "shape: a scalar has no last dimension");
    Shape shape = *this;
    shape.lengths_[static_cast<size_t>(--shape.dims_)] = 0;
    return shape;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  [[noreturn]] void fail_too_many() const;

  std::array<int64_t, kMaxDims> lengths_{};
  int dims_ = 0;
};

inline std::string str(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.dims(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace athanor::tensor

// Written out by hand: the formatter of strings would need all of fmt/format.h here.
template <>
struct fmt::formatter<athanor::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(const athanor::Shape& shape, Context& context) const {
    auto out = context.out();
    for (const char c : athanor::str(shape)) *out++ = c;
    return out;
  }
};

[[noreturn]] inline void athanor::Shape::fail_too_many() const {
  fail("shape: got {}, expected fewer than 2^59 elements", *this);
}
