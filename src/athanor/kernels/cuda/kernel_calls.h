// The plug-in's kernels, as a table. Rules for all of them: kernels/cuda/calls.h.
#pragma once

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/cuda/calls.h"
#include "athanor/kernels/quantize.h"
#include "athanor/kernels/router.h"

namespace athanor::kernels {

// An array whose squares are summed, and where its leaves begin; a range of nodes of one array, and where those above them
// begin.
struct CudaSquares {
  const float* x;
  int64_t n, first;
};
struct CudaNodes {
  int64_t from, count, first;
};
constexpr int64_t kCudaNodeLeaves = 512;

// One function for each kernel of the table; `type` is the "T" of its contract.
struct CudaKernelCalls {
  using Stream = CudaCalls::Stream*;
  using Error = const char*;

  Error (*attention_forward)(Stream, Dtype type, void* o, float* lse, const void* q, const void* k,
                             const void* v, const CudaAttention& problem);
  // delta [B,H,T] f32: workspace.
  Error (*attention_backward)(Stream, Dtype type, void* dq, void* dk, void* dv, const void* d_o,
                              const void* o, const float* lse, float* delta, const void* q, const void* k,
                              const void* v, const CudaAttention& problem);
  // o_lse and lse [B,H,T], sum and o [B,T,H,D]; queries [first, first + count) of each sequence.
  Error (*attention_merge)(Stream, Dtype type, float* sum, float* lse, const void* o, const float* o_lse,
                           int64_t batch, int64_t length, int64_t heads, int64_t head_dim, int64_t first,
                           int64_t count);
  Error (*cross_entropy_rows)(Stream, Dtype type, float* loss, void* dlogits, const float* logits,
                              const int32_t* targets, int64_t rows, int64_t width, int64_t classes,
                              float scale);
  Error (*cross_entropy_statistics)(Stream, float* statistics, const float* logits, const int32_t* targets,
                                    int64_t rows, int64_t width, int64_t first, int64_t classes,
                                    int64_t total);
  Error (*cross_entropy_gradient)(Stream, Dtype type, void* dlogits, const float* logits,
                                  const float* statistics, const int32_t* targets, int64_t rows,
                                  int64_t width, int64_t first, int64_t classes, int64_t total, float scale);
  Error (*dropout)(Stream, Dtype type, void* y, const void* x, int64_t n, float p, uint64_t key,
                   uint64_t step, uint64_t first_element);
  Error (*add)(Stream, Dtype type, void* y, const void* a, const void* b, int64_t n);
  Error (*add_row)(Stream, Dtype type, float* y, const void* row, int64_t rows,
                   int64_t width);  // adds a bias to y, f32
  Error (*accumulate)(Stream, float* y, const float* x, int64_t n);
  Error (*scale)(Stream, float* x, float factor, int64_t n);
  Error (*cast)(Stream, Dtype to, void* y, Dtype from, const void* x, int64_t n);
  // partials [ceil(rows / 32), width] f32: workspace, here and below.
  Error (*column_sum)(Stream, Dtype type, float* out, float* partials, const void* x, int64_t rows,
                      int64_t width);
  // Of each block of kNormBlock elements of the arrays; `parts` lie on the device, ordered.
  Error (*square_sums)(Stream, double* leaves, const CudaSquares* parts, int64_t num_parts,
                       int64_t num_leaves);
  // A node for each 512 leaves or nodes below it, in the tree of comm/tree.h.
  Error (*tree_sums)(Stream, double* to, const double* from, const CudaNodes* parts, int64_t num_parts,
                     int64_t num_nodes);
  Error (*embedding_forward)(Stream, Dtype type, void* y, const int32_t* ids, const void* table,
                             const void* positions, int64_t count, int64_t length, int64_t width,
                             int64_t vocabulary);
  // workspace, here and in embedding_move_rows: 24 bytes for each of `count`, and 4 MiB.
  Error (*embedding_backward)(Stream, Dtype type, float* dtable, const void* dy, const int32_t* ids,
                              int64_t count, int64_t width, int64_t vocabulary, void* workspace,
                              uint64_t workspace_bytes);
  Error (*embedding_backward_positions)(Stream, Dtype type, float* dpositions, const void* dy, int64_t batch,
                                        int64_t length, int64_t width);
  Error (*embedding_move_rows)(Stream, float* sum, float* table, const int32_t* ids, int64_t count,
                               int64_t width, int64_t vocabulary, void* workspace, uint64_t workspace_bytes);
  Error (*gelu_forward)(Stream, Dtype type, void* y, const void* x, int64_t n, bool exact);
  Error (*gelu_backward)(Stream, Dtype type, void* dx, const void* dy, const void* x, int64_t n, bool exact);
  // Layer norm; with null mean and b it is the root-mean-square norm.
  Error (*norm_forward)(Stream, Dtype type, void* y, float* mean, float* rstd, const void* x, const void* w,
                        const void* b, int64_t rows, int64_t width, float eps);
  Error (*norm_backward)(Stream, Dtype type, void* dx, const void* dy, const void* x, const void* w,
                         const float* mean, const float* rstd, const void* base, int64_t rows, int64_t width);
  Error (*norm_backward_weight)(Stream, Dtype type, float* dw, float* partials, const void* dy, const void* x,
                                const float* mean, const float* rstd, int64_t rows, int64_t width);
  Error (*adamw)(Stream, Dtype type, float* master, float* m, float* v, void* value, const float* grad,
                 int64_t n, const AdamwRow& step);
  Error (*sgd)(Stream, Dtype type, float* master, float* m, void* value, const float* grad, int64_t n,
               const SgdRow& step);
  Error (*quantize_encode)(Stream, uint8_t* codes, float* scales, const float* x, int64_t n, CodeMap map);
  Error (*quantize_decode)(Stream, float* x, const uint8_t* codes, const float* scales, int64_t n,
                           CodeMap map);
  Error (*rope)(Stream, Dtype type, void* y, const void* x, const float* cos, const float* sin,
                int64_t positions, int64_t length, int64_t heads, int64_t head_dim, float sign);
  // partials f64 [ceil(tokens / 64), experts + 1]
  Error (*router_forward)(Stream, int32_t* experts, float* weights, float* lse, double* sums,
                          double* partials, const float* logits, const float* bias, int64_t tokens,
                          int64_t num_experts, int64_t chosen, const RouterOptions& options);
  Error (*router_backward)(Stream, float* dlogits, const float* dweights, const float* logits,
                           const int32_t* experts, const float* lse, const float* share, int64_t tokens,
                           int64_t num_experts, int64_t chosen, const RouterOptions& options,
                           float loss_scale);
  Error (*swiglu_forward)(Stream, Dtype type, void* y, const void* gate, const void* up, int64_t n);
  Error (*swiglu_backward)(Stream, Dtype type, void* dgate, void* dup, const void* dy, const void* gate,
                           const void* up, int64_t n);
  Error (*gather_rows)(Stream, Dtype type, void* y, const void* x, const int32_t* tokens, int64_t rows,
                       int64_t width, int64_t all_tokens);
  // weights may be null: all 1.
  Error (*sum_places)(Stream, Dtype type, void* y, const void* x, const float* weights, const int32_t* places,
                      int64_t tokens, int64_t chosen, int64_t width, int64_t all_rows);
  Error (*combine_backward)(Stream, Dtype type, void* dx, float* dweights, const void* dy, const void* x,
                            const float* weights, const int32_t* places, int64_t tokens, int64_t chosen,
                            int64_t width, int64_t all_rows);
  // Rows of `width` elements, which begin every to_row and from_row elements.
  Error (*copy_rows)(Stream, Dtype type, void* to, int64_t to_row, const void* from, int64_t from_row,
                     int64_t width, int64_t rows);
  // out [count] = the sum of the rows of in [rows, count], in order, for comm/nccl/nccl.h. bf16 (summed in f32), f32,
  // f64, i64.
  Error (*sum_rows)(Stream, Dtype type, void* out, const void* in, int64_t rows, int64_t count);
};

}  // namespace athanor::kernels
