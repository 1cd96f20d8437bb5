#include "athanor/comm/ordered_sum.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/comm/sum_rows.h"

namespace athanor::comm {

namespace {

constexpr int64_t kBlock = 2048;  // elements; the accumulators stay in the L1 cache

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
void sum(const void* const* in, int num_in, void* const* out, int num_out, int64_t count) {
  using Element = typename Sum::Element;
  const auto input = [&](int r) { return static_cast<const Element*>(in[r]); };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    typename Sum::Accumulator total[kBlock];
    const Element* first = input(0) + begin;
    for (int64_t i = 0; i < length; ++i) total[i] = Sum::load(first[i]);
    for (int r = 1; r < num_in; ++r) {
      const Element* next = input(r) + begin;
      for (int64_t i = 0; i < length; ++i) total[i] += Sum::load(next[i]);
    }
    for (int j = 0; j < num_out; ++j) {
      Element* to = static_cast<Element*>(out[j]) + begin;
      for (int64_t i = 0; i < length; ++i) to[i] = Sum::store(total[i]);
    }
  }
}

constexpr SumRows kGenericRows = {.f32 = sum<PlainSum<float>>, .bf16 = sum<Bf16Sum>};

const SumRows& rows() {
  static const SumRows& best = best_isa() >= Isa::avx512 ? avx512_sum_rows
                               : best_isa() >= Isa::avx2 ? avx2_sum_rows
                                                         : kGenericRows;
  return best;
}

SumRows::Sum sum_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return rows().f32;
    case Dtype::bf16:
      return rows().bf16;
    case Dtype::f64:
      return sum<PlainSum<double>>;
    case Dtype::i64:
      return sum<PlainSum<uint64_t>>;
    default:
      fail("ordered_sum: got {}, expected f32, f64, bf16 or i64", name_of(dtype));
  }
}

}  // namespace

void ordered_sum(std::span<const void* const> in, std::span<void* const> out, int64_t count, Dtype dtype) {
  check(!in.empty(), "ordered_sum: no inputs");
  const auto sum = sum_of(dtype);
  if (in.size() > 1)
    return sum(in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), count);
  for (void* to : out)
    if (count > 0 && to != in[0]) std::memcpy(to, in[0], static_cast<size_t>(count) * size_of(dtype));
}

void add(float* into, const float* a, const float* b, int64_t count) {
  const void* in[] = {a, b};
  void* out[] = {into};
  rows().f32(in, 2, out, 1, count);
}

}  // namespace athanor::comm
