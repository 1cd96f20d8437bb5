// One matrix product as data, and the candidates that may compute it.
//
// gemm.cpp turns each product of kernels/gemm.h into a GemmProblem and gives it to the first of gemm_candidates() that
// does not refuse it. A candidate refuses by shape, element types and instruction set only, so neither the choice nor
// the result depends on threads or time.
#pragma once

#include <span>
#include <string>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {

struct Rotation;

// c [m,n] (+)= a [m,k] . b [k,n] (+ bias [n]). Element (i, l) of a is at i * a_row + l * a_col, (l, j) of b
// at l * b_row + j * b_col; c is dense. Exactly one stride of a and of b is 1 (both, where a length is 1).
struct GemmProblem {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;
  RowType in, out;  // of a, b and bias; of c
  bool accumulate;  // c += (c is f32, no bias)
};

constexpr int64_t kMaxRotatedHead = 256;

struct GemmOperands {
  const void* a;
  const void* b;
  const void* bias;  // may be null
  void* c;
  const void* residual = nullptr;  // added to rounded results; laid out like c
  float* a_sums = nullptr;         // [m], += the sums of a over k
  const Rotation* rotation =
      nullptr;  // RoPE applied to rounded results: rows of c are [H,D], D a multiple of 32, at most kMaxRotatedHead
};

struct GemmCandidate {
  const char* name;
  bool takes_residual;  // in run(), where c is bf16
  bool takes_a_sums;    // in run(), where a is transposed in memory (a_row is 1)
  bool takes_rotation;  // in run(), where c is bf16
  // Why it does not take a problem for this instruction set; "" if it does.
  std::string (*refuses)(const GemmProblem&, Isa);
  // Workspace comes from the arena before any parallel loop. All lengths are at least 1.
  void (*run)(Queue&, Arena&, const GemmProblem&, const GemmOperands&);
};

std::span<const GemmCandidate* const> gemm_candidates();  // fastest first; the last takes everything

// "amx: not on this machine" or "amx: not asked for", if `needed` is more than `isa`.
std::string refuse_isa(Isa needed, Isa isa);

inline const void* offset(const void* base, int64_t element, RowType type) {
  return static_cast<const std::byte*>(base) + element * (type == kF32 ? 4 : 2);
}
inline void* offset(void* base, int64_t element, RowType type) {
  return static_cast<std::byte*>(base) + element * (type == kF32 ? 4 : 2);
}

}  // namespace athanor::kernels
