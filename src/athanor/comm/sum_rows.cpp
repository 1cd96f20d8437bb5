#include "athanor/comm/sum_rows.h"

#include "athanor/kernels/cpu/simd/vec.h"

#define ATHANOR_JOIN(a, b) a##b
#define ATHANOR_TABLE(isa) ATHANOR_JOIN(isa, _sum_rows)

namespace athanor::comm {

using namespace ATHANOR_ISA;

namespace {

constexpr int kVectors = 4;  // per iteration: enough loads in flight, little overhead of the loop over ranks

template <typename T>
inline const T* input(const void* const* in, int r, int64_t i) {
  return static_cast<const T*>(in[r]) + i;
}
template <typename T>
inline T* output(void* const* out, int r, int64_t i) {
  return static_cast<T*>(out[r]) + i;
}

template <typename T>
void sum(const void* const* in, int num_in, void* const* out, int num_out, int64_t count) {
  constexpr int64_t kStep = kVectors * kLanes;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    V total[kVectors];
    for (int v = 0; v < kVectors; ++v) total[v] = load(input<T>(in, 0, i + v * kLanes), Full{});
    for (int r = 1; r < num_in; ++r)
      for (int v = 0; v < kVectors; ++v) total[v] = total[v] + load(input<T>(in, r, i + v * kLanes), Full{});
    for (int j = 0; j < num_out; ++j)
      for (int v = 0; v < kVectors; ++v)
        kernels::ATHANOR_ISA::store(output<T>(out, j, i + v * kLanes), total[v], Full{});
  }
  for (; i < count; i += kLanes) {
    const Tail tail{first_lanes(static_cast<int>(count - i < kLanes ? count - i : kLanes))};
    V total = load(input<T>(in, 0, i), tail);
    for (int r = 1; r < num_in; ++r) total = total + load(input<T>(in, r, i), tail);
    for (int j = 0; j < num_out; ++j) kernels::ATHANOR_ISA::store(output<T>(out, j, i), total, tail);
  }
}

}  // namespace

extern constexpr SumRows ATHANOR_TABLE(ATHANOR_ISA) = {.f32 = sum<float>, .bf16 = sum<Bf16>};

}  // namespace athanor::comm
