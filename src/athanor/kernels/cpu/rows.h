// What one thread does to one block, as a table of plain functions, one table per instruction set. The drivers in this
// folder (cpu/x.cpp) check shapes, divide the work into blocks of constant size, hand the blocks to the thread pool and
// call these functions. The functions take raw pointers, and this header needs <cstdint> only. So a file compiled for
// one instruction set includes nothing else of the program, and none of its inline functions can end up in code for
// older machines.
//
// Arrays of three are indexed by element type: kF32, kBf16, kF16 (the order of Dtype). `T*` is written void*.
// Contracts, formulas and shapes: the headers in kernels/. A null pointer means "not written for this instruction set":
// the driver then takes the next lower one. The last table (ref) has every function.
#pragma once

#include <cstdint>

#include "athanor/kernels/cpu/attention_rows.h"

namespace athanor::kernels {

enum RowType { kF32 = 0, kBf16 = 1, kF16 = 2 };

struct RmsNormRows {
  void (*forward)(void* y, float* rstd, const void* x, const void* w, int64_t rows, int64_t width, float eps);
  void (*backward)(void* dx, const void* dy, const void* x, const void* w, const float* rstd, int64_t rows,
                   int64_t width);
  void (*backward_weight)(float* dw, const void* dy, const void* x, const float* rstd, int64_t rows,
                          int64_t width);
};

struct LayerNormRows {  // b and db may be null
  void (*forward)(void* y, float* mean, float* rstd, const void* x, const void* w, const void* b,
                  int64_t rows, int64_t width, float eps);
  void (*backward)(void* dx, const void* dy, const void* x, const void* w, const float* mean,
                   const float* rstd, int64_t rows, int64_t width);
  void (*backward_weight)(float* dw, float* db, const void* dy, const void* x, const float* mean,
                          const float* rstd, int64_t rows, int64_t width);
};

// One position: heads x head_dim values, rotated by the row of cos and sin [head_dim / 2] of that position.
struct RopeRows {
  void (*apply)(void* y, const void* x, const float* cos, const float* sin, int64_t heads, int64_t head_dim,
                float sign);
};

struct SwigluRows {
  void (*forward)(void* y, const void* gate, const void* up, int64_t n);
  void (*backward)(void* dgate, void* dup, const void* dy, const void* gate, const void* up, int64_t n);
};

// Rows of tokens by index (`places`); a negative index is no row. `weights` may be null: all 1.
struct TokenRows {
  void (*sum_rows)(void* y, const void* x, const int32_t* places, const float* weights, int64_t count,
                   int64_t width);  // y = sum of weights[k] * x[places[k]], k ascending
  void (*scale_row)(void* y, const void* x, float factor, int64_t width);
  float (*dot)(const void* a, const void* b, int64_t width);
};

// One token of a router; bias may be null.
struct RouterRow {
  bool is_sigmoid, renormalize;
  int64_t experts_per_token;
  float scale, aux_loss, z_loss, loss_scale;
};
struct RouterRows {
  void (*forward)(int32_t* chosen, float* weights, float* lse, double* sums, const float* logits,
                  const float* bias, int64_t experts, const RouterRow& row);  // sums +=
  void (*backward)(float* dlogits, const float* dweights, const float* logits, const int32_t* chosen,
                   float lse, const float* share, int64_t experts, const RouterRow& row);
};

struct GeluRows {
  void (*forward)(void* y, const void* x, int64_t n);
  void (*backward)(void* dx, const void* dy, const void* x, int64_t n);
  void (*exact_forward)(void* y, const void* x, int64_t n);
  void (*exact_backward)(void* dx, const void* dy, const void* x, int64_t n);
};

struct DropoutRows {
  void (*apply)(void* y, const void* x, int64_t n, float p, uint64_t key, uint64_t step,
                uint64_t first_element);
};

struct EmbeddingRows {                                                 // ids already checked
  void (*add_rows)(void* y, const void* a, const void* b, int64_t n);  // y = a + b, b may be null (copy)
  void (*backward)(float* dtable_row, const void* dy_row, int64_t n);  // dtable_row += dy_row
};

struct SoftmaxNormalizer {
  float largest, sum;  // of exp(logit - largest)
};
struct CrossEntropyRows {
  // One row; returns its loss; dlogits may be null.
  float (*row)(void* dlogits, const float* logits, int32_t target, int64_t classes, int64_t width,
               float scale);
  // The same in two steps, for classes split over ranks. A negative target: the target is none of this rank's classes.
  SoftmaxNormalizer (*normalize)(const float* logits, int64_t classes);
  void (*gradient)(void* dlogits, const float* logits, SoftmaxNormalizer norm, int32_t target,
                   int64_t classes, int64_t width, float scale);
};

struct ElementwiseRows {
  void (*add)(void* y, const void* a, const void* b, int64_t n);
  void (*column_sum)(float* out, const void* x, int64_t rows, int64_t width);  // out +=
  void (*from_f32)(void* y, const float* x, int64_t n);
  void (*to_f32)(float* y, const void* x, int64_t n);
};

struct F32Rows {
  void (*accumulate)(float* y, const float* x, int64_t n);
  void (*scale)(float* x, float factor, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
};

struct AdamwRow {
  float lr, beta1, beta2, eps, weight_decay, correction1, correction2, grad_scale;
};
struct SgdRow {
  float lr, momentum, weight_decay, grad_scale;
};
struct AdamwState {
  float *master, *m, *v;
};
struct SgdState {
  float *master, *m;
};
struct BlockSums {  // of base/block_checksum.h, of what was written
  uint64_t master, m, v;
};
struct OptimizerRows {  // value may be null
  void (*adamw)(AdamwState state, void* value, const float* grad, int64_t n, const AdamwRow& step);
  void (*sgd)(SgdState state, void* value, const float* grad, int64_t n, const SgdRow& step);
  // From one state to another, or the same, of one block. `stream`: past the caches, if `to` is aligned to 64 bytes.
  BlockSums (*adamw_to)(AdamwState to, AdamwState from, void* value, const float* grad, int64_t n,
                        const AdamwRow& step, bool stream);
  BlockSums (*sgd_to)(SgdState to, SgdState from, void* value, const float* grad, int64_t n,
                      const SgdRow& step, bool stream);
  // r of lamb_squares (kernels/optimizer.h); changes no state.
  void (*lamb_update)(float* r, AdamwState state, const float* grad, int64_t n, const AdamwRow& step);
};

// c [m,n] f32 (+)= a . b on one block, operands in place: element (i, k) of a is a[i * a_row + k * a_col], element (k,
// j) of b is b[k * b_row + j * b_col]. For shapes and types that no other GemmCandidate takes.
struct GemmRows {
  void (*block)(float* c, int64_t c_row, const void* a, int64_t a_row, int64_t a_col, const void* b,
                int64_t b_row, int64_t b_col, int64_t m, int64_t n, int64_t k, bool accumulate);
};

struct RowTable {
  const char* name;
  RmsNormRows rms_norm[3];
  LayerNormRows layer_norm[3];
  RopeRows rope[3];
  SwigluRows swiglu[3];
  GeluRows gelu[3];
  DropoutRows dropout[3];
  EmbeddingRows embedding[3];
  CrossEntropyRows cross_entropy[3];
  AttentionRows attention[3];
  ElementwiseRows elementwise[3];
  OptimizerRows optimizer[3];
  GemmRows gemm[3];
  TokenRows token_rows[3];
  RouterRows router;
  F32Rows f32;
};

extern const RowTable ref_rows;     // cpu/ref: plain loops, documentation and oracle
extern const RowTable avx2_rows;    // cpu/simd compiled for x86-64-v3
extern const RowTable avx512_rows;  // cpu/simd compiled for x86-64-v4
// cpu/bf16 compiled for AVX512_BF16 and for AMX tiles: the bf16 operations that are faster there
extern const RowTable avx512_bf16_rows;
extern const RowTable amx_rows;

}  // namespace athanor::kernels
