// The kernels of one device, as a table with one member per operation. The operation's header in this folder is its
// contract (shapes, formulas, determinism). A backend fills the table, so the compiler rejects a wrong signature.
//
//   kernels_of(x).rms_norm.forward(x.queue(), y, rstd, x, w, eps);
//
// Rules of all kernels:
// - The caller allocates outputs. They must not overlap inputs unless the contract says so.
// - "+=" in a contract means "added to what is there".
// - All tensors of a call lie on one queue. Shapes and dtypes are checked (Error).
// - Activations and weights are f32, bf16 or f16: "T" in the contracts, one dtype per call. Arithmetic is f32.
// - No result depends on the number of threads (law 5).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/kernels/attention.h"
#include "athanor/kernels/cross_entropy.h"
#include "athanor/kernels/dropout.h"
#include "athanor/kernels/elementwise.h"
#include "athanor/kernels/embedding.h"
#include "athanor/kernels/gelu.h"
#include "athanor/kernels/gemm.h"
#include "athanor/kernels/layer_norm.h"
#include "athanor/kernels/optimizer.h"
#include "athanor/kernels/quantize.h"
#include "athanor/kernels/rms_norm.h"
#include "athanor/kernels/rope.h"
#include "athanor/kernels/router.h"
#include "athanor/kernels/swiglu.h"
#include "athanor/kernels/token_rows.h"
#include "athanor/tensor/tensor.h"

namespace athanor::kernels {

struct KernelTable {
  AttentionKernels attention;
  CrossEntropyKernels cross_entropy;
  DropoutKernels dropout;
  ElementwiseKernels elementwise;
  EmbeddingKernels embedding;
  GeluKernels gelu;
  GemmKernels gemm;
  LayerNormKernels layer_norm;
  OptimizerKernels optimizer;
  QuantizeKernels quantize;
  RmsNormKernels rms_norm;
  RopeKernels rope;
  RouterKernels router;
  SwigluKernels swiglu;
  TokenRowsKernels token_rows;
};

inline const KernelTable& kernels_of(const Tensor& x) {
  return x.queue().table();
}

// A queue on the CPU. `isa` is the highest instruction set to use; Error if this machine lacks it.
std::unique_ptr<Queue> make_cpu_queue(ThreadPool* pool, Isa isa);
// A queue whose kernels only check and allocate: for dry runs that count memory. `isa` is the instruction set of the
// planned run, because workspace depends on it.
std::unique_ptr<Queue> make_null_queue(Isa isa = best_isa());

// Which implementation each kernel would use for an instruction set, and why faster ones refuse (doctor --kernels).
struct KernelChoice {
  std::string kernel, chosen, refused;  // "gemm bf16", "amx", "" / "avx512: not on this machine"
};
std::vector<KernelChoice> explain_kernels(Isa isa);

}  // namespace athanor::kernels
