// kernels/dropout.h on vectors: sixteen Philox blocks at a time, bit for bit the words of base/philox.h.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace dropout {

inline constexpr int64_t kGroup = 64;  // elements of sixteen blocks

// The words of elements [64 group, 64 group + 64). Lane 4 L + i works on block 4 i + L of the group, so that
// transposing quads puts the words in order.
inline void group_words(uint32_t* words, uint64_t group, uint64_t key, uint64_t step) {
  alignas(64) static constexpr float kBlockOfLane[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                         2, 6, 10, 14, 3, 7, 11, 15};
  const uint64_t block = group * 16;  // lane offsets below 16 cannot carry
  // 2^23 + k has k in its low bits: a conversion to integers that every instruction set has.
  const VI offset = bits_of(load(kBlockOfLane) + set1(0x1p23f)) & set1i(15);
  VI counter[4] = {offset + set1i(static_cast<uint32_t>(block)), set1i(static_cast<uint32_t>(block >> 32)),
                   set1i(static_cast<uint32_t>(step)), set1i(static_cast<uint32_t>(step >> 32))};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    VI high_a, low_a, high_b, low_b;
    multiply_wide(counter[0], set1i(0xD2511F53u), high_a, low_a);
    multiply_wide(counter[2], set1i(0xCD9E8D57u), high_b, low_b);
    counter[0] = high_b ^ counter[1] ^ set1i(key0);
    counter[1] = low_b;
    counter[2] = high_a ^ counter[3] ^ set1i(key1);
    counter[3] = low_a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  VI ordered[4];
  transpose_quads(counter, ordered);
  for (int i = 0; i < 4; ++i) store(words + 16 * i, ordered[i]);
}

template <typename T>
void apply(void* y, const void* x, int64_t n, float p, uint64_t key, uint64_t step, uint64_t first_element) {
  alignas(64) float words[kGroup];
  const V keep_scale = set1(1.f / (1.f - p)), threshold = set1(p);
  int64_t lead = static_cast<int64_t>(first_element % kGroup);
  uint64_t group = first_element / kGroup;
  for (int64_t done = 0; done < n; ++group) {
    group_words(reinterpret_cast<uint32_t*>(words), group, key, step);
    const int64_t count = n - done < kGroup - lead ? n - done : kGroup - lead;
    const T* in = static_cast<const T*>(x) + done;
    T* out = static_cast<T*>(y) + done;
    for_vectors(
        count, [&](int64_t i, auto part) __attribute__((always_inline)) {
          const V uniform = to_float(shift_right<8>(bits_of(load(words + lead + i, part)))) * set1(0x1p-24f);
          const V kept = load(in + i, part) * keep_scale;
          store(out + i, select(at_least(uniform, threshold), kept, zero()), part);
        });
    done += count;
    lead = 0;
  }
}

template <typename T>
constexpr DropoutRows rows = {apply<T>};

}  // namespace dropout
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
