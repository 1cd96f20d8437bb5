#include "athanor/comm/ordered_sum.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor {

namespace {

constexpr int64_t kBlock = 2048;  // elements: the accumulators stay in the first-level cache

struct Bf16Sum {
  using Element = Bf16;
  using Accumulator = float;
  static float load(Bf16 value) { return to_float(value); }
  static Bf16 store(float value) { return from_float<Bf16>(value); }
};

template <typename T>
struct PlainSum {
  using Element = T;
  using Accumulator = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <typename Sum>
void sum(std::span<const void* const> in, void* out_bytes, int64_t count) {
  using Element = typename Sum::Element;
  const auto input = [&](size_t r) { return static_cast<const Element*>(in[r]); };
  auto* out = static_cast<Element*>(out_bytes);
  if (in.size() == 2) {
    const Element *a = input(0), *b = input(1);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = Sum::store(Sum::load(a[i]) + Sum::load(b[i]));
    return;
  }
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    typename Sum::Accumulator total[kBlock];
    const Element *a = input(0) + begin, *b = input(1) + begin;
    for (int64_t i = 0; i < length; ++i) total[i] = Sum::load(a[i]) + Sum::load(b[i]);
    for (size_t r = 2; r < in.size(); ++r) {
      const Element* next = input(r) + begin;
      for (int64_t i = 0; i < length; ++i) total[i] += Sum::load(next[i]);
    }
    for (int64_t i = 0; i < length; ++i) out[begin + i] = Sum::store(total[i]);
  }
}

}  // namespace

void ordered_sum(std::span<const void* const> in, void* out, int64_t count, Dtype dtype) {
  check(!in.empty(), "ordered_sum: no inputs");
  if (count == 0) return;
  if (in.size() == 1) {
    if (out != in[0]) std::memcpy(out, in[0], static_cast<size_t>(count) * size_of(dtype));
    return;
  }
  switch (dtype) {
    case Dtype::f32:
      return sum<PlainSum<float>>(in, out, count);
    case Dtype::f64:
      return sum<PlainSum<double>>(in, out, count);
    case Dtype::bf16:
      return sum<Bf16Sum>(in, out, count);
    case Dtype::i64:
      return sum<PlainSum<uint64_t>>(in, out, count);
    default:
      fail("ordered_sum: got {}, expected f32, f64, bf16 or i64", name_of(dtype));
  }
}

void add_into(float* into, const float* from, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) into[i] += from[i];
}

}  // namespace athanor
