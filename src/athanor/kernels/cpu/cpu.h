// What the CPU drivers (cpu/x.cpp, one per operation) share: checking contracts, choosing row functions for an
// instruction set, and dividing work into blocks of constant size.
//
// All drivers have the same three steps:
//
//   expect("gelu.forward", "y", y, x.shape(), x.dtype());                   // 1. contract, Error by name
//   const GeluRows& rows = choose(queue, &RowTable::gelu, row_type("gelu.forward", x), &GeluRows::forward);
//   for_blocks(queue, x.numel(), kBlockElements, [&](int64_t first, int64_t count) {   // 2. divide, 3. run
//     rows.forward(at(y, first), at(x, first), count);
//   });
//
// The same drivers serve the null device, whose parallel_for runs nothing, and the CUDA device, which runs a kernel of
// its own after them: checks and workspace are exactly those of the CPU. A driver therefore reads or writes elements
// only inside parallel_for or if on_cpu(queue).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "athanor/kernels/cpu/rows.h"
#include "athanor/kernels/table.h"

namespace athanor::kernels {

extern const AttentionKernels cpu_attention;
extern const CrossEntropyKernels cpu_cross_entropy;
extern const DropoutKernels cpu_dropout;
extern const ElementwiseKernels cpu_elementwise;
extern const EmbeddingKernels cpu_embedding;
extern const GeluKernels cpu_gelu;
extern const GemmKernels cpu_gemm;
extern const LayerNormKernels cpu_layer_norm;
extern const OptimizerKernels cpu_optimizer;
extern const QuantizeKernels cpu_quantize;
extern const RmsNormKernels cpu_rms_norm;
extern const RopeKernels cpu_rope;
extern const RouterKernels cpu_router;
extern const SwigluKernels cpu_swiglu;
extern const TokenRowsKernels cpu_token_rows;

// explain_kernels() for matrix products, whose implementations are GemmCandidates, not row functions.
std::vector<KernelChoice> explain_gemm(Isa isa);

// Contract checks. The messages name kernel and tensor: "gelu.forward: y is bf16 [3], expected f32 [3]".
void expect(const char* kernel, const char* name, const Tensor& x, const Shape& shape, Dtype dtype);
// Any shape with this many elements: per-row values such as rstd [rows].
void expect_count(const char* kernel, const char* name, const Tensor& x, int64_t count, Dtype dtype);
// The element type "T" of a contract; Error unless x is f32, bf16 or f16.
RowType row_type(const char* kernel, const Tensor& x);

inline bool on_cpu(const Queue& queue) {
  return queue.device() == Device::cpu;
}

// The row tables that may run under an instruction set, fastest first; the last is ref, which has every
// function.
std::span<const RowTable* const> row_tables(Isa isa);

// The row functions of the fastest instruction set that implements `function` for this operation and element type.
template <typename Rows, typename Function>
const Rows& choose(const Queue& queue, Rows (RowTable::*operation)[3], RowType type,
                   Function Rows::*function) {
  for (const RowTable* table : row_tables(queue.isa()))
    if (const Rows& rows = (table->*operation)[type]; rows.*function != nullptr) return rows;
  return (ref_rows.*operation)[type];
}
template <typename Function>
Function choose_f32(const Queue& queue, Function F32Rows::*function) {
  for (const RowTable* table : row_tables(queue.isa()))
    if (table->f32.*function != nullptr) return table->f32.*function;
  return ref_rows.f32.*function;
}

constexpr int64_t kBlockElements =
    16384;  // of one tensor: 64 KiB in f32, so that three such blocks fit a core's L2
constexpr int64_t kReduceRows = 32;  // rows per partial of a sum over rows, see the contracts

// The number of rows that make a block of about kBlockElements.
inline int64_t rows_per_block(int64_t width) {
  return std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, width));
}

inline int64_t num_blocks(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

// body(first, count) for the blocks of [0, n).
template <typename Body>
void for_blocks(const Queue& queue, int64_t n, int64_t block, const Body& body) {
  queue.parallel_for(num_blocks(n, block), [&](int64_t index) {
    const int64_t first = index * block;
    body(first, std::min(block, n - first));
  });
}

// One parallel loop over several ranges: body(i, first, count) for every block of kBlockElements of [0,
// size_of_range(i)).
template <typename Size, typename Body>
void for_blocks_of(const Queue& queue, size_t num_ranges, const Size& size_of_range, const Body& body) {
  std::vector<int64_t> ends;  // of each range's blocks
  for (size_t i = 0; i < num_ranges; ++i)
    ends.push_back((i == 0 ? 0 : ends.back()) + num_blocks(size_of_range(i), kBlockElements));
  queue.parallel_for(ends.empty() ? 0 : ends.back(), [&](int64_t index) {
    const auto i = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin());
    const int64_t first = (index - (i == 0 ? 0 : ends[i - 1])) * kBlockElements;
    body(i, first, std::min(kBlockElements, size_of_range(i) - first));
  });
}

// The address of an element.
inline void* at(const Tensor& x, int64_t element) {
  return static_cast<std::byte*>(x.raw()) + element * static_cast<int64_t>(size_of(x.dtype()));
}

// The meter's entry of one call, opened by every driver once the contract is checked (base/meter.h).
inline double flops_of(const Tensor& x) {  // one operation an element
  return static_cast<double>(x.numel());
}
inline double bytes_of(const Tensor& x) {
  return static_cast<double>(x.size_bytes());
}
inline double bytes_of(const Tensor* x) {
  return x == nullptr ? 0.0 : bytes_of(*x);
}
template <typename... Tensors>
requires(sizeof...(Tensors) > 1) double bytes_of(const Tensors&... x) {
  return (bytes_of(x) + ...);
}
inline Meter::Call metered(const Queue& queue, const char* kernel, double flops, double bytes) {
  return {queue.meter(), kernel, {flops, bytes}};
}

// Workspace for a sum over `rows` rows: f32 [blocks of kReduceRows, width], not cleared.
Tensor empty_partials(Arena& arena, int64_t rows, int64_t width);
// out [C] += the rows of partials, in order.
void add_partials(Queue& queue, Tensor& out, const Tensor& partials);

}  // namespace athanor::kernels
