#include "athanor/kernels/cpu/gemm_blocks.h"

#include <algorithm>
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
// is what the scratch of a thread holds beside packed rows of a and what a second-level cache keeps.
struct Kernel {
  void (*block)(const GemmBlock&);
  void (*pack_b)(const GemmBlock&, std::byte*);
  int64_t (*packed_bytes)(int64_t n, int64_t k);
  bool takes_sums;     // and a residual
  bool packs_weights;  // whole, once a step
  int64_t group;       // rows that meet a panel of b at once
  int64_t least_rows;  // and that are handed out at once where threads would wait for the last
  int64_t max_depth, max_turned_depth;  // the longest piece of k; where a is read against its rows
  int64_t max_narrow_depth;             // there, if all of b's columns fit in a block
  int64_t max_elements, max_columns;
  int64_t side;  // columns of a panel
  // Measured cycles for 32 x 32 x 32 of a product, and per 32 x 32 for packing a, packing a that is read
  // against its rows, packing b, packing b that is W^T, and writing c.
  int64_t product, pack_a, turn_a, pack_b_unit, pack_transposed, write_c;
};

// Where a is turned, passing over c again costs less than narrow blocks, for which that is done often.
constexpr Kernel kAmx{.block = amx::gemm_block,
                      .pack_b = amx::pack_b,
                      .packed_bytes = packed_b_bytes,
                      .takes_sums = true,
                      .packs_weights = true,
                      .group = kGroupRows,
                      .least_rows = kGroupRows / 2,
                      .max_depth = 1024,
                      .max_turned_depth = 512,
                      .max_narrow_depth = 1024,
                      .max_elements = 128 * 3072,
                      .max_columns = 768,
                      .side = 32,
                      .product = 75,
                      .pack_a = 80,
                      .turn_a = 700,
                      .pack_b_unit = 500,
                      .pack_transposed = 500,
                      .write_c = 350};
constexpr Kernel kAvx512Bf16{.block = avx512_bf16::gemm_block,
                             .pack_b = avx512_bf16::pack_b,
                             .packed_bytes = packed_b_bytes,
                             .takes_sums = true,
                             .packs_weights = true,
                             .group = kGroupRows,
                             .least_rows = kGroupRows / 2,
                             .max_depth = 3072,
                             .max_turned_depth = 512,
                             .max_narrow_depth = 512,
                             .max_elements = 256 * 3072,
                             .max_columns = 768,
                             .side = 32,
                             .product = 540,
                             .pack_a = 30,
                             .turn_a = 210,
                             .pack_b_unit = 240,
                             .pack_transposed = 200,
                             .write_c = 60};
constexpr Kernel kAvx512{.block = avx512::gemm_block,
                         .pack_b = avx512::pack_b,
                         .packed_bytes = packed_f32_b_bytes,
                         .takes_sums = false,
                         .packs_weights = false,
                         .group = kAvx512GroupRows,
                         .least_rows = kAvx512GroupRows / 2,
                         .max_depth = 1536,
                         .max_turned_depth = 1024,
                         .max_narrow_depth = 1024,
                         .max_elements = 64 * 4096,
                         .max_columns = 512,
                         .side = kF32PanelWidth,
                         .product = 1100,
                         .pack_a = 30,
                         .turn_a = 200,
                         .pack_b_unit = 300,
                         .pack_transposed = 300,
                         .write_c = 100};
constexpr Kernel kAvx2{.block = avx2::gemm_block,
                       .pack_b = avx2::pack_b,
                       .packed_bytes = packed_f32_b_bytes,
                       .takes_sums = false,
                       .packs_weights = false,
                       .group = kAvx2GroupRows,
                       .least_rows = kAvx2GroupRows,
                       .max_depth = 1536,
                       .max_turned_depth = 1024,
                       .max_narrow_depth = 1024,
                       .max_elements = 64 * 6144,
                       .max_columns = 512,
                       .side = kF32PanelWidth,
                       .product = 2200,
                       .pack_a = 30,
                       .turn_a = 200,
                       .pack_b_unit = 300,
                       .pack_transposed = 300,
                       .write_c = 100};

// A block has room for the widest side that choose_cut() is asked for: norm blocks of gradients, heads that are rotated.
constexpr bool has_room(const Kernel& kernel) {
  return kernel.max_elements / kernel.max_turned_depth >= kNormBlock &&
         kernel.max_elements / kernel.max_depth >= kernel.side &&
         (!kernel.takes_sums || kernel.max_elements / kernel.max_depth >= kMaxRotatedHead);
}
static_assert(has_room(kAmx) && has_room(kAvx512Bf16) && has_room(kAvx512) && has_room(kAvx2));

constexpr bool fits_scratch(const Kernel& kernel, int64_t depth) {
  const int64_t columns = std::min(kernel.max_columns, kernel.max_elements / depth);
  const int64_t beside =
      kernel.packs_weights ? bf16_scratch_bytes(columns, depth) : f32_scratch_bytes(kernel.group, depth);
  return kernel.packed_bytes(columns / kernel.side * kernel.side, depth) + beside <= kGemmScratchBytes;
}
constexpr bool fits_scratch(const Kernel& kernel) {
  for (int64_t depth = kUnit; depth <= kernel.max_depth; depth += kUnit)
    if (!fits_scratch(kernel, depth)) return false;
  return true;
}
static_assert(fits_scratch(kAmx) && fits_scratch(kAvx512Bf16) && fits_scratch(kAvx512) &&
              fits_scratch(kAvx2));

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
  const int64_t pack_b = b_is_packed ? 0 : p.b_row == 1 ? kernel.pack_transposed : kernel.pack_b_unit;
  return steps * (rows * columns * kernel.product + rows * pack_a + columns * pack_b) +
         rows * columns * kernel.write_c;
}

int64_t depth_of(const Kernel& kernel, const GemmProblem& p) {
  const bool is_narrow =
      num_blocks(p.n, kernel.side) * kernel.side * kernel.max_narrow_depth <= kernel.max_elements;
  const int64_t turned = is_narrow ? kernel.max_narrow_depth : kernel.max_turned_depth;
  return even_part(p.k, num_blocks(p.k, p.a_col != 1 ? turned : kernel.max_depth), kUnit);
}

// The cut that has the threads ready first. No result depends on it but for the depth, which depends on the shape
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

// Rows of a block that are handed out at once: work for some tens of microseconds.
int64_t chunk_rows(const Kernel& kernel, const GemmProblem& p, const Cut& cut, int64_t threads) {
  constexpr int64_t kLeastCycles = 60000, kLeastChunks = 8;  // of a thread
  const int64_t groups =
      num_blocks(p.m, cut.rows) * num_blocks(p.n, cut.columns) * num_blocks(cut.rows, kernel.group);
  const int64_t step = groups < kLeastChunks * threads ? kernel.least_rows : kernel.group;
  const int64_t cycles =
      step * num_blocks(cut.columns, kUnit) * num_blocks(cut.depth, kUnit) * kernel.product / kUnit;
  return step * num_blocks(kLeastCycles, cycles);
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

// All of b, of one range of k after the other, as blocks of any columns find it.
const std::byte* pack_whole(Queue& queue, const Kernel& kernel, const GemmProblem& p,
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

// One range of k, all blocks of c, made by threads that share packed blocks of b; or b lies packed whole.
void run_depth(Queue& queue, const Kernel& kernel, const GemmProblem& p, const GemmOperands& operands,
               const Cut& cut, const std::byte* packed_b, const float* sums = nullptr) {
  const int64_t down = num_blocks(p.m, cut.rows), chunk = chunk_rows(kernel, p, cut, queue.num_threads());
  const int64_t chunks = num_blocks(cut.rows, chunk);
  const int64_t packed_bytes = kernel.packed_bytes(cut.columns, cut.depth);
  PackedBlocks packed;
  queue.parallel_for(down * num_blocks(p.n, cut.columns) * chunks, [&](int64_t item) {
    const int64_t index = item / chunks, row = index % down * cut.rows, first = item % chunks * chunk;
    const int64_t rows = std::min({chunk, cut.rows - first, p.m - row - first});
    if (rows <= 0) return;
    const int64_t column = index / down * cut.columns;
    GemmBlock block = block_of(p, operands, row + first, column, cut, sums);
    block.m = rows;
    if (packed_b != nullptr) {
      block.packed_b = packed_b + kernel.packed_bytes(column, p.k);
      kernel.block(block);
    } else {
      const PackedBlocks::Reading b =
          packed.read(index, block.scratch, [&](std::byte* to) { kernel.pack_b(block, to); });
      block.packed_b = b.data();
      block.scratch += packed_bytes;
      kernel.block(block);
    }
    rotate_block(operands.rotation, block, row + first);
    note_squares(operands, block, (row + first) * p.n + column);
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
    const std::byte* const packed = packed_b == nullptr ? nullptr : packed_b + kernel.packed_bytes(p.n, l);
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
