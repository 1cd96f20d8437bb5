#include "athanor/kernels/cpu/gemm_blocks.h"

#include <utility>

#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/gemm_scratch.h"
#include "athanor/kernels/cpu/packed_blocks.h"
#include "athanor/kernels/cpu/rotation.h"
#include "athanor/kernels/packed_weights.h"

namespace athanor {
namespace {

constexpr int64_t kUnit = 32;  // rows, columns and k that costs are counted in

// A block function and what the cutter must know of it. How much of b a block may span (depth times columns)
// is what stays in the second-level cache while the rows of a pass by.
struct Kernel {
  void (*block)(const GemmBlock&);
  bool takes_sums;                                    // and a residual
  void (*pack_shared)(const GemmBlock&, std::byte*);  // of a b that threads share; null: each packs its own
  int64_t max_depth, max_turned_depth;  // the longest piece of k; where a is read against its rows
  int64_t max_elements, max_columns;
  int64_t side;  // columns of a panel
  // Measured cycles for 32 x 32 x 32 of a product, and per 32 x 32 for packing a, packing a that is read
  // against its rows, packing b, packing b that is W^T, and writing c.
  int64_t product, pack_a, turn_a, pack_b, pack_transposed, write_c;
};

// Where a is turned, passing over c again costs less than narrow blocks, for which that is done often.
constexpr Kernel kAmx{
    amx::gemm_block, true, amx::pack_b, 1024, 512, 128 * 3072, 768, 32, 75, 80, 700, 500, 500, 350};
constexpr Kernel kAvx512Bf16{avx512_bf16::gemm_block,
                             true,
                             avx512_bf16::pack_b,
                             1536,
                             512,
                             128 * 3072,
                             768,
                             32,
                             540,
                             30,
                             210,
                             240,
                             200,
                             60};
constexpr Kernel kAvx512{
    avx512::gemm_block, false, nullptr, 3072, 1024, 64 * 4096, 512, 64, 1300, 100, 200, 400, 400, 200};
constexpr Kernel kAvx2{
    avx2::gemm_block, false, nullptr, 3072, 1024, 64 * 4096, 512, 64, 2600, 200, 400, 800, 800, 400};

struct Cut {
  int64_t rows, columns, depth;
};

// The length of parts of [0, length), all but the last of which are equal and whole multiples of `side`.
int64_t even_part(int64_t length, int64_t parts, int64_t side) {
  return num_blocks(num_blocks(length, parts), side) * side;
}

int64_t estimated_cycles(const Kernel& kernel, const GemmProblem& p, const Cut& cut, bool b_is_packed) {
  const int64_t steps = num_blocks(cut.depth, kUnit);
  const int64_t rows = num_blocks(cut.rows, kUnit), columns = num_blocks(cut.columns, kUnit);
  const int64_t pack_a = p.a_col == 1 ? kernel.pack_a : kernel.turn_a;
  const int64_t pack_b = b_is_packed ? 0 : p.b_row == 1 ? kernel.pack_transposed : kernel.pack_b;
  return steps * (rows * columns * kernel.product + rows * pack_a + columns * pack_b) +
         rows * columns * kernel.write_c;
}

int64_t depth_of(const Kernel& kernel, const GemmProblem& p) {
  return even_part(p.k, num_blocks(p.k, p.a_col != 1 ? kernel.max_turned_depth : kernel.max_depth), kUnit);
}

// The cut that has the threads ready first. No result depends on it but for the depth, which depends on k
// alone: within a depth an element is the same sum whatever the block around it. Blocks have multiples of `side` columns.
Cut choose_cut(const Kernel& kernel, const GemmProblem& p, int64_t threads, bool b_is_packed, int64_t side) {
  Cut best{};
  best.depth = depth_of(kernel, p);
  const int64_t widest = std::min(kernel.max_columns, kernel.max_elements / best.depth) / side * side;
  const int64_t fewest = num_blocks(p.n, widest), most = 4 * threads;  // parts; more would only be shorter
  int64_t best_cycles = INT64_MAX;
  for (int64_t across = fewest; across == fewest || across <= most; ++across) {
    for (int64_t down = 1; down == 1 || across * down <= most; ++down) {
      const Cut cut{even_part(p.m, down, kUnit), even_part(p.n, across, side), best.depth};
      const int64_t blocks = num_blocks(p.m, cut.rows) * num_blocks(p.n, cut.columns);
      const int64_t cycles = num_blocks(blocks, threads) * estimated_cycles(kernel, p, cut, b_is_packed);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = cut;
    }
  }
  return best;
}

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
          gemm_scratch()};
}

// Rows of a block that are handed out at once: work for some tens of microseconds, whole groups of turned panels.
int64_t chunk_rows(const Kernel& kernel, const Cut& cut) {
  constexpr int64_t kStep = 128, kLeastCycles = 60000;
  const int64_t cycles =
      kStep / kUnit * num_blocks(cut.columns, kUnit) * num_blocks(cut.depth, kUnit) * kernel.product;
  return kStep * num_blocks(kLeastCycles, cycles);
}

// A finished block of c, whose first row is `row` of the whole.
void rotate_block(const Rotation* rotation, const GemmBlock& block, int64_t row) {
  if (rotation != nullptr) rotation->apply(block.c, block.c, row, block.m, block.n / rotation->head_dim, +1);
}

// A finished block of c whose first element is `first` of the whole, and whose rows are whole norm blocks: it is still
// in a cache.
void note_squares(const GemmOperands& operands, const GemmBlock& block, int64_t first) {
  if (operands.squares == nullptr) return;
  for (int64_t i = 0; i < block.m; ++i) {
    const int64_t row = i * block.c_row;
    operands.square_blocks(static_cast<const float*>(block.c) + row, block.n,
                           operands.squares + (first + row) / kNormBlock);
  }
}

// One range of k, all blocks of c, made by threads that share packed blocks of b; or b lies packed whole.
void run_shared(Queue& queue, const Kernel& kernel, const GemmProblem& p, const GemmOperands& operands,
                const Cut& cut, const float* sums, const std::byte* packed_b) {
  const int64_t down = num_blocks(p.m, cut.rows), chunk = chunk_rows(kernel, cut);
  const int64_t chunks = num_blocks(cut.rows, chunk);
  const int64_t packed_bytes = packed_b_bytes(cut.columns, cut.depth);
  PackedBlocks packed;
  queue.parallel_for(down * num_blocks(p.n, cut.columns) * chunks, [&](int64_t item) {
    const int64_t index = item / chunks, row = index % down * cut.rows, first = item % chunks * chunk;
    const int64_t rows = std::min({chunk, cut.rows - first, p.m - row - first});
    if (rows <= 0) return;
    const int64_t column = index / down * cut.columns;
    GemmBlock block = block_of(p, operands, row + first, column, cut, sums);
    block.m = rows;
    if (packed_b != nullptr) {
      block.packed_b = packed_b + packed_b_bytes(column, p.k);
      kernel.block(block);
    } else {
      const PackedBlocks::Reading b =
          packed.read(index, block.scratch, [&](std::byte* to) { kernel.pack_shared(block, to); });
      block.packed_b = b.data();
      block.scratch += packed_bytes;
      kernel.block(block);
    }
    rotate_block(operands.rotation, block, row + first);
    note_squares(operands, block, (row + first) * p.n + column);
  });
}

// All of b, of one range of k after the other, as blocks of any columns find it.
const std::byte* pack_whole(Queue& queue, const Kernel& kernel, const GemmProblem& p,
                            const GemmOperands& operands) {
  if (kernel.pack_shared == nullptr || p.a_col != 1 || queue.packed_weights() == nullptr) return nullptr;
  const int64_t depth = depth_of(kernel, p);
  PackedWeights::Entry* const entry =
      queue.packed_weights()->find(operands.b, p.n * p.k, p.b_row == 1 ? 0 : 1, packed_b_bytes(p.n, p.k) / 2);
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
    kernel.pack_shared(block_of(part, piece, 0, column, cut),
                       to + packed_b_bytes(p.n, l) + packed_b_bytes(column, part.k));
  });
  return to;
}

// One range of k, all blocks of c; neighbours in time share their columns of b.
void run_depth(Queue& queue, const Kernel& kernel, const GemmProblem& p, const GemmOperands& operands,
               const Cut& cut, const std::byte* packed_b, const float* sums = nullptr) {
  if (kernel.pack_shared != nullptr) return run_shared(queue, kernel, p, operands, cut, sums, packed_b);
  const int64_t down = num_blocks(p.m, cut.rows);
  queue.parallel_for(down * num_blocks(p.n, cut.columns), [&](int64_t index) {
    const int64_t row = index % down * cut.rows, column = index / down * cut.columns;
    const GemmBlock block = block_of(p, operands, row, column, cut, sums);
    kernel.block(block);
    note_squares(operands, block, row * p.n + column);
  });
}

// Where k is longer than a depth, the sums of several meet in c or, if that is not f32, in workspace.
void run_kernel(Queue& queue, Arena& arena, const Kernel& kernel, const GemmProblem& p,
                const GemmOperands& operands) {
  const std::byte* const packed_b = pack_whole(queue, kernel, p, operands);
  const int64_t side = operands.rotation != nullptr  ? operands.rotation->head_dim
                       : operands.squares != nullptr ? kNormBlock
                                                     : kernel.side;
  const Cut cut = choose_cut(kernel, p, queue.num_threads(), packed_b != nullptr, side);
  if (cut.depth >= p.k) return run_depth(queue, kernel, p, operands, cut, packed_b);
  Tensor sums;
  if (p.out != kF32) sums = empty(arena, {p.m, p.n}, Dtype::f32, Category::workspace);
  GemmProblem part = p;
  part.out = kF32;
  for (int64_t l = 0; l < p.k; l += cut.depth) {
    const bool last = l + cut.depth >= p.k;
    part.k = std::min(cut.depth, p.k - l);
    part.accumulate = p.accumulate || l > 0;
    const std::byte* const packed = packed_b == nullptr ? nullptr : packed_b + packed_b_bytes(p.n, l);
    GemmOperands pieces{offset(operands.a, l * p.a_col, p.in), offset(operands.b, l * p.b_row, p.in),
                        l == 0 ? operands.bias : nullptr, sums.defined() ? sums.raw() : operands.c};
    pieces.a_sums = operands.a_sums;
    pieces.square_blocks = operands.square_blocks;
    if (last) pieces.squares = operands.squares;
    if (!last || !sums.defined() || !kernel.takes_sums) {
      run_depth(queue, kernel, part, pieces, cut, packed);
      continue;
    }
    part.out = p.out;
    part.accumulate = false;
    pieces.c = operands.c;
    pieces.residual = operands.residual;
    pieces.rotation = operands.rotation;
    run_depth(queue, kernel, part, pieces, cut, packed, sums.data<float>());
  }
  if (!sums.defined() || kernel.takes_sums) return;
  const auto from_f32 = choose(queue, &RowTable::elementwise, p.out, &ElementwiseRows::from_f32).from_f32;
  for_blocks(queue, p.m * p.n, kBlockElements, [&](int64_t first, int64_t count) {
    from_f32(offset(operands.c, first, p.out), sums.data<float>() + first, count);
  });
}

template <const Kernel& kKernel>
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

constinit const GemmCandidate amx_gemm{"amx", true, true, true, true, amx_refuses, run<kAmx>};
constinit const GemmCandidate avx512_bf16_gemm{"avx512_bf16",   true, true, true, true, bf16_refuses,
                                               run<kAvx512Bf16>};
constinit const GemmCandidate avx512_gemm{"avx512",    false, false, false, true, refuses<Isa::avx512>,
                                          run<kAvx512>};
constinit const GemmCandidate avx2_gemm{"avx2", false, false, false, true, refuses<Isa::avx2>, run<kAvx2>};
constinit const GemmCandidate dots_gemm{"dots", false, false, false, false, dots_refuse, run_dots};

}  // namespace athanor
