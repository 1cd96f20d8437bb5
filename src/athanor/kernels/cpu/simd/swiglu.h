// kernels/swiglu.h on vectors.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cpu/simd/vec_loops.h"
#include "athanor/kernels/cpu/simd/vec_math.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {
namespace swiglu {

template <typename T>
void forward(void* y, const void* gate, const void* up, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(gate) + i);
        fetch_ahead(static_cast<const T*>(up) + i);
        const V g = load(static_cast<const T*>(gate) + i, part);
        V complement;
        const V silu = g * sigmoid(g, complement);
        store(static_cast<T*>(y) + i, silu * load(static_cast<const T*>(up) + i, part), part);
      });
}

template <typename T>
void backward(void* dgate, void* dup, const void* dy, const void* gate, const void* up, int64_t n) {
  for_vectors(
      n, [&](int64_t i, auto part) __attribute__((always_inline)) {
        fetch_ahead(static_cast<const T*>(dy) + i);
        fetch_ahead(static_cast<const T*>(gate) + i);
        fetch_ahead(static_cast<const T*>(up) + i);
        const V g = load(static_cast<const T*>(gate) + i, part),
                dyi = load(static_cast<const T*>(dy) + i, part);
        V complement;
        const V s = sigmoid(g, complement);
        const V slope = s * fma(g, complement, set1(1.f));
        const V dg = dyi * load(static_cast<const T*>(up) + i, part) * slope;
        store(static_cast<T*>(dup) + i, dyi * (g * s), part);
        store(static_cast<T*>(dgate) + i, dg, part);
      });
}

template <typename T>
constexpr SwigluRows rows = {forward<T>, backward<T>};

}  // namespace swiglu
}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
