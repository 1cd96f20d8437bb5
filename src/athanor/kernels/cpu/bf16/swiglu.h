// kernels/swiglu.h in bf16, only as accurate as a bf16 result can show (sigmoid.h).
#pragma once

#include "athanor/kernels/cpu/bf16/sigmoid.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace swiglu_bf16 {

inline void forward(void* y, const void* gate, const void* up, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const Bf16*>(gate) + i);
        fetch_ahead(static_cast<const Bf16*>(up) + i);
        const V g = load(static_cast<const Bf16*>(gate) + i, part);
        V complement;
        const V silu = g * bf16::sigmoid(g, complement);
        store(static_cast<Bf16*>(y) + i, silu * load(static_cast<const Bf16*>(up) + i, part), part);
      });
}

inline void backward(void* dgate, void* dup, const void* dy, const void* gate, const void* up, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const Bf16*>(dy) + i);
        fetch_ahead(static_cast<const Bf16*>(gate) + i);
        fetch_ahead(static_cast<const Bf16*>(up) + i);
        const V g = load(static_cast<const Bf16*>(gate) + i, part);
        const V dyi = load(static_cast<const Bf16*>(dy) + i, part);
        V complement;
        const V s = bf16::sigmoid(g, complement);
        const V slope = s * fma(g, complement, set1(1.f));
        const V dg = dyi * load(static_cast<const Bf16*>(up) + i, part) * slope;
        store(static_cast<Bf16*>(dup) + i, dyi * (g * s), part);
        store(static_cast<Bf16*>(dgate) + i, dg, part);
      });
}

}  // namespace swiglu_bf16
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
