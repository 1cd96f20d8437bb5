// Attention by cuDNN's fused kernels: a candidate above this folder's own, for bf16 and f16.
//
//   AttentionPlans* plans = open_attention_plans();                   // with the stream; null without the library
//   bool can = false;
//   uint64_t bytes = 0;
//   fused_attention_plan(stream, Dtype::bf16, problem, /*backward=*/false, &can, &bytes);
//   if (can) fused_attention_forward(stream, Dtype::bf16, o, lse, q, k, v, problem, workspace);
//
// It takes heads of a multiple of 8 elements, all keys or a causal mask over as many keys as queries, no document mask,
// addresses at multiples of 16 bytes. Sums are f32, results the same bits each time. The backward pass therefore holds the
// gradient of all scores in its workspace: batch x heads x queries x keys elements; where that
// is more than 8 GiB it does not take the problem. An unseen value that is not finite
// can reach queries of its own tile: the library multiplies it by zero.
#pragma once

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels {

struct AttentionPlans;

namespace cuda {

AttentionPlans* open_attention_plans();
void close_attention_plans(AttentionPlans* plans);

const char* fused_attention_plan(CudaCalls::Stream* stream, Dtype type, const CudaAttention& problem,
                                 bool backward, bool* can, uint64_t* workspace_bytes);
const char* fused_attention_forward(CudaCalls::Stream* stream, Dtype type, void* o, float* lse, const void* q,
                                    const void* k, const void* v, const CudaAttention& problem,
                                    void* workspace);
const char* fused_attention_backward(CudaCalls::Stream* stream, Dtype type, void* dq, void* dk, void* dv,
                                     const void* d_o, const void* o, const float* lse, float* delta,
                                     const void* q, const void* k, const void* v,
                                     const CudaAttention& problem, void* workspace);

}  // namespace cuda
}  // namespace athanor::kernels
