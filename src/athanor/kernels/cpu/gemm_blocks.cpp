#include "athanor/kernels/cpu/gemm_blocks.h"

#include <algorithm>
#include <utility>

#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/gemm_cut.h"
#include "athanor/kernels/cpu/gemm_scratch.h"
#include "athanor/kernels/cpu/packed_blocks.h"
#include "athanor/kernels/cpu/rotation.h"
#include "athanor/kernels/packed_weights.h"

namespace athanor::kernels {
namespace {

// The block of rows from i and columns from j on.
GemmBlock block_of(const GemmProblem& p, const GemmOperands& operands, int64_t i, int64_t j, const Cut& cut,
                   const float* sums = nullptr) {
  const int64_t at = i * p.n + j;
  return {std::min(cut.rows, p.m - i),
          std::min(cut.columns, p.n - j),
          p.k,
          offset(operands.a, i * p.a_row, p.in),
          p.a_row,
          p.a_col,
          offset(operands.b, j * p.b_col, p.in),
          p.b_row,
          p.b_col,
          operands.bias == nullptr ? nullptr : offset(operands.bias, j, p.in),
          offset(operands.c, at, p.out),
          p.n,
          p.in,
          p.out,
          p.accumulate,
          sums == nullptr ? nullptr : sums + at,
          operands.residual == nullptr ? nullptr : offset(operands.residual, at, p.out),
          j == 0 && operands.a_sums != nullptr ? operands.a_sums + i : nullptr,
          nullptr,
          {},
          gemm_scratch()};
}

// Applies the rotation to a finished block of c whose first row is row `row` of c.
void rotate_block(const Rotation* rotation, const GemmBlock& block, int64_t row) {
  if (rotation != nullptr) rotation->apply(block.c, block.c, row, block.m, block.n / rotation->head_dim, +1);
}

// All of b packed (PackedWeights), one range of k after the other, so that blocks of any columns can use it. Null if b
// is not held there.
const std::byte* pack_whole(Queue& queue, const BlockKernel& kernel, const GemmProblem& p,
                            const GemmOperands& operands) {
  if (!kernel.packs_weights || p.a_col != 1 || queue.packed_weights() == nullptr) return nullptr;
  const int64_t depth = depth_of(kernel, p);
  PackedWeights::Entry* const entry = queue.packed_weights()->find(
      operands.b, p.n * p.k, p.b_row == 1 ? 0 : 1, kernel.packed_bytes(p.n, p.k) / 2);
  if (entry == nullptr) return nullptr;
  auto* const to = static_cast<std::byte*>(entry->memory.raw());
  if (std::exchange(entry->ready, true)) return to;
  const Cut cut{p.m, 4 * kUnit, depth};
  const int64_t across = num_blocks(p.n, cut.columns);
  queue.parallel_for(num_blocks(p.k, depth) * across, [&](int64_t item) {
    const int64_t l = item / across * depth, column = item % across * cut.columns;
    GemmProblem part = p;
    part.k = std::min(depth, p.k - l);
    GemmOperands piece = operands;
    piece.b = offset(operands.b, l * p.b_row, p.in);
    kernel.pack_b(block_of(part, piece, 0, column, cut),
                  to + kernel.packed_bytes(p.n, l) + kernel.packed_bytes(column, part.k));
  });
  return to;
}

// The part of a product that run_depth() computes: some rows of c over one range of k.
struct Part {
  int64_t row, rows;          // of c
  const std::byte* packed_b;  // all of b, packed; null: it is packed block by block
  const float* sums = nullptr;
  PairSums pairs{};  // of the rows of this part
};

// Computes one range of k for all blocks of some rows of c. Threads share packed blocks of b.
void run_depth(Queue& queue, const BlockKernel& kernel, const GemmProblem& p, const GemmOperands& operands,
               const Cut& cut, const Part& part) {
  const int64_t down = num_blocks(part.rows, cut.rows),
                chunk = chunk_rows(kernel, p, cut, queue.num_threads());
  const int64_t chunks = num_blocks(cut.rows, chunk);
  const int64_t packed_bytes = kernel.packed_bytes(cut.columns, cut.depth);
  PackedBlocks packed;
  queue.parallel_for(down * num_blocks(p.n, cut.columns) * chunks, [&](int64_t item) {
    const int64_t index = item / chunks, first = index % down * cut.rows + item % chunks * chunk;
    const int64_t rows = std::min({chunk, (index % down + 1) * cut.rows - first, part.rows - first});
    if (rows <= 0) return;
    const int64_t row = part.row + first, column = index / down * cut.columns;
    GemmBlock block = block_of(p, operands, row, column, cut, part.sums);
    block.m = rows;
    block.pairs = part.pairs;
    if (part.pairs.data != nullptr) block.pairs.data += first / kUnit * part.pairs.row + column * kUnit;
    if (part.packed_b != nullptr) {
      block.packed_b = part.packed_b + kernel.packed_bytes(column, p.k);
      kernel.block(block);
    } else {
      const PackedBlocks::Reading b =
          packed.read(index, block.scratch, [&](std::byte* to) { kernel.pack_b(block, to); });
      block.packed_b = b.data();
      block.scratch += packed_bytes;
      kernel.block(block);
    }
    if (part.pairs.last) rotate_block(operands.rotation, block, row);
  });
}

// The operands of the range of k from l on.
GemmOperands range_of(const GemmOperands& operands, const GemmProblem& p, int64_t l) {
  GemmOperands range = operands;
  range.a = offset(operands.a, l * p.a_col, p.in);
  range.b = offset(operands.b, l * p.b_row, p.in);
  return range;
}

// Computes ranges of k one after the other; between them the sums of pairs lie in workspace. Rows of c are computed in
// slabs, so that these sums stay in a cache.
void run_in_slabs(Queue& queue, Arena& arena, const BlockKernel& kernel, const GemmProblem& p,
                  const GemmOperands& operands, const std::byte* packed_b, int64_t side) {
  constexpr int64_t kSlabElements = int64_t{4} << 20, kLeastRows = 1024;
  const int64_t rows = even_part(p.m, num_blocks(p.m, std::max(kSlabElements / p.n, kLeastRows)), kUnit);
  const int64_t pairs_row = num_blocks(p.n, kUnit) * kUnit * kUnit;
  const Tensor sums = empty(arena, {rows / kUnit * pairs_row}, Dtype::f32, Category::workspace);
  for (int64_t row = 0; row < p.m; row += rows) {
    GemmProblem slab = p;
    slab.m = std::min(rows, p.m - row);
    const Cut cut = choose_cut(kernel, slab, queue.num_threads(), packed_b != nullptr, side);
    for (int64_t l = 0; l < p.k; l += cut.depth) {
      GemmProblem range = p;
      range.k = std::min(cut.depth, p.k - l);
      const std::byte* const packed = packed_b == nullptr ? nullptr : packed_b + kernel.packed_bytes(p.n, l);
      const PairSums pairs{sums.data<float>(), pairs_row, l == 0, l + cut.depth >= p.k};
      run_depth(queue, kernel, range, range_of(operands, p, l), cut, {row, slab.m, packed, nullptr, pairs});
    }
  }
}

// Computes ranges of k one after the other; their sums are added in c or, if c is not f32, in workspace.
void run_in_sums(Queue& queue, Arena& arena, const BlockKernel& kernel, const GemmProblem& p,
                 const GemmOperands& operands, const std::byte* packed_b, const Cut& cut) {
  Tensor sums;
  if (p.out != kF32) sums = empty(arena, {p.m, p.n}, Dtype::f32, Category::workspace);
  GemmProblem part = p;
  part.out = kF32;
  for (int64_t l = 0; l < p.k; l += cut.depth) {
    const bool last = l + cut.depth >= p.k;
    part.k = std::min(cut.depth, p.k - l);
    part.accumulate = p.accumulate || l > 0;
    const std::byte* const packed = packed_b == nullptr ? nullptr : packed_b + kernel.packed_bytes(p.n, l);
    GemmOperands pieces = range_of(operands, p, l);
    if (l > 0) pieces.bias = nullptr;
    if (sums.defined()) pieces.c = sums.raw();
    if (!last || !sums.defined() || !kernel.takes_sums) {
      pieces.residual = nullptr;
      pieces.rotation = nullptr;
      run_depth(queue, kernel, part, pieces, cut, {0, p.m, packed});
      continue;
    }
    part.out = p.out;
    part.accumulate = false;
    pieces.c = operands.c;
    run_depth(queue, kernel, part, pieces, cut, {0, p.m, packed, sums.data<float>()});
  }
  if (!sums.defined() || kernel.takes_sums) return;
  const auto from_f32 = choose(queue, &RowTable::elementwise, p.out, &ElementwiseRows::from_f32).from_f32;
  for_blocks(queue, p.m * p.n, kBlockElements, [&](int64_t first, int64_t count) {
    from_f32(offset(operands.c, first, p.out), sums.data<float>() + first, count);
  });
}

void run_kernel(Queue& queue, Arena& arena, const BlockKernel& kernel, const GemmProblem& p,
                const GemmOperands& operands) {
  const std::byte* const packed_b = pack_whole(queue, kernel, p, operands);
  const int64_t side = operands.rotation != nullptr ? operands.rotation->head_dim : kernel.side;
  const int64_t depth = depth_of(kernel, p);
  // For two ranges and c in f32, adding in c is as fast.
  if (kernel.keeps_pairs && p.k > (p.out == kF32 ? 2 : 1) * depth)
    return run_in_slabs(queue, arena, kernel, p, operands, packed_b, side);
  const Cut cut = choose_cut(kernel, p, queue.num_threads(), packed_b != nullptr, side);
  if (depth >= p.k) return run_depth(queue, kernel, p, operands, cut, {0, p.m, packed_b});
  run_in_sums(queue, arena, kernel, p, operands, packed_b, cut);
}

template <const BlockKernel& kKernel>
void run(Queue& queue, Arena& arena, const GemmProblem& p, const GemmOperands& operands) {
  run_kernel(queue, arena, kKernel, p, operands);
}

std::string amx_refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kBf16) return "for bf16";
  return refuse_isa(Isa::amx, isa);
}
std::string bf16_refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kBf16) return "for bf16";
  return refuse_isa(Isa::avx512_bf16, isa);
}
template <Isa kNeeds>
std::string refuses(const GemmProblem&, Isa isa) {
  return refuse_isa(kNeeds, isa);
}

// Up to this many rows, reading b is most of the work. With more, packing it pays, earlier for tile
// registers.
constexpr int64_t kMaxDotRows = 8, kMaxDotRowsBeforeTiles = 4;
constexpr int64_t kDotColumns = 128;

std::string dots_refuse(const GemmProblem& p, Isa isa) {
  const int64_t most = p.in == kBf16 && isa >= Isa::amx ? kMaxDotRowsBeforeTiles : kMaxDotRows;
  if (p.m > most || p.accumulate || p.a_col != 1 || p.b_row != 1) return "for few rows times W^T";
  if (kMaxDotRows * (p.k + kDotColumns + 32) * 4 > kGemmScratchBytes) return "for shorter rows";
  return refuse_isa(Isa::avx2, isa);
}

void run_dots(Queue& queue, Arena&, const GemmProblem& p, const GemmOperands& operands) {
  const auto block = queue.isa() >= Isa::avx512 ? avx512::dots_block : avx2::dots_block;
  for_blocks(queue, p.n, kDotColumns, [&](int64_t first, int64_t) {
    block(block_of(p, operands, 0, first, {p.m, kDotColumns, p.k}));
  });
}

}  // namespace

constinit const GemmCandidate amx_gemm{"amx", true, true, true, amx_refuses, run<amx_blocks>};
constinit const GemmCandidate avx512_bf16_gemm{"avx512_bf16", true,         true,
                                               true,          bf16_refuses, run<avx512_bf16_blocks>};
constinit const GemmCandidate avx512_gemm{"avx512",          false, false, false, refuses<Isa::avx512>,
                                          run<avx512_blocks>};
constinit const GemmCandidate avx2_gemm{"avx2", false, false, false, refuses<Isa::avx2>, run<avx2_blocks>};
constinit const GemmCandidate dots_gemm{"dots", false, false, false, dots_refuse, run_dots};

}  // namespace athanor::kernels
