#include "athanor/kernels/cpu/gemm_cut.h"

#include <algorithm>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

// For a transposed a, another pass over c costs less than narrow blocks, which would transpose a again and again.
constexpr BlockKernel kAmx{.block = amx::gemm_block,
                           .pack_b = amx::pack_b,
                           .packed_bytes = packed_b_bytes,
                           .takes_sums = true,
                           .keeps_pairs = true,
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
constexpr BlockKernel kAvx512Bf16{.block = avx512_bf16::gemm_block,
                                  .pack_b = avx512_bf16::pack_b,
                                  .packed_bytes = packed_b_bytes,
                                  .takes_sums = true,
                                  .keeps_pairs = false,
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
constexpr BlockKernel kAvx512{.block = avx512::gemm_block,
                              .pack_b = avx512::pack_b,
                              .packed_bytes = packed_f32_b_bytes,
                              .takes_sums = false,
                              .keeps_pairs = false,
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
constexpr BlockKernel kAvx2{.block = avx2::gemm_block,
                            .pack_b = avx2::pack_b,
                            .packed_bytes = packed_f32_b_bytes,
                            .takes_sums = false,
                            .keeps_pairs = false,
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

// A block must have room for the widest `side` that choose_cut() is asked for: the kernel's own, or a rotated head.
constexpr bool has_room(const BlockKernel& kernel) {
  return kernel.max_elements / kernel.max_depth >= kernel.side &&
         (!kernel.takes_sums || kernel.max_elements / kernel.max_depth >= kMaxRotatedHead);
}
static_assert(has_room(kAmx) && has_room(kAvx512Bf16) && has_room(kAvx512) && has_room(kAvx2));

constexpr bool fits_scratch(const BlockKernel& kernel, int64_t depth) {
  const int64_t columns = std::min(kernel.max_columns, kernel.max_elements / depth);
  const int64_t beside =
      kernel.packs_weights ? bf16_scratch_bytes(columns, depth) : f32_scratch_bytes(kernel.group, depth);
  return kernel.packed_bytes(columns / kernel.side * kernel.side, depth) + beside <= kGemmScratchBytes;
}
constexpr bool fits_scratch(const BlockKernel& kernel) {
  for (int64_t depth = kUnit; depth <= kernel.max_depth; depth += kUnit)
    if (!fits_scratch(kernel, depth)) return false;
  return true;
}
static_assert(fits_scratch(kAmx) && fits_scratch(kAvx512Bf16) && fits_scratch(kAvx512) &&
              fits_scratch(kAvx2));

int64_t estimated_cycles(const BlockKernel& kernel, const GemmProblem& p, const Cut& cut, bool b_is_packed) {
  const int64_t steps = num_blocks(cut.depth, kUnit);
  const int64_t rows = num_blocks(cut.rows, kUnit), columns = num_blocks(cut.columns, kUnit);
  const int64_t pack_a = p.a_col == 1 ? kernel.pack_a : kernel.turn_a;
  const int64_t pack_b = b_is_packed ? 0 : p.b_row == 1 ? kernel.pack_transposed : kernel.pack_b_unit;
  return steps * (rows * columns * kernel.product + rows * pack_a + columns * pack_b) +
         rows * columns * kernel.write_c;
}

}  // namespace

constinit const BlockKernel amx_blocks = kAmx;
constinit const BlockKernel avx512_bf16_blocks = kAvx512Bf16;
constinit const BlockKernel avx512_blocks = kAvx512;
constinit const BlockKernel avx2_blocks = kAvx2;

int64_t even_part(int64_t length, int64_t parts, int64_t side) {
  return num_blocks(num_blocks(length, parts), side) * side;
}

int64_t depth_of(const BlockKernel& kernel, const GemmProblem& p) {
  const bool is_narrow =
      num_blocks(p.n, kernel.side) * kernel.side * kernel.max_narrow_depth <= kernel.max_elements;
  const int64_t turned = is_narrow ? kernel.max_narrow_depth : kernel.max_turned_depth;
  return even_part(p.k, num_blocks(p.k, p.a_col != 1 ? turned : kernel.max_depth), kUnit);
}

Cut choose_cut(const BlockKernel& kernel, const GemmProblem& p, int64_t threads, bool b_is_packed,
               int64_t side) {
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

int64_t chunk_rows(const BlockKernel& kernel, const GemmProblem& p, const Cut& cut, int64_t threads) {
  constexpr int64_t kLeastCycles = 60000, kLeastChunks = 8;  // of a thread
  const int64_t groups =
      num_blocks(p.m, cut.rows) * num_blocks(p.n, cut.columns) * num_blocks(cut.rows, kernel.group);
  const int64_t step = groups < kLeastChunks * threads ? kernel.least_rows : kernel.group;
  const int64_t cycles =
      step * num_blocks(cut.columns, kUnit) * num_blocks(cut.depth, kUnit) * kernel.product / kUnit;
  return step * num_blocks(kLeastCycles, cycles);
}

}  // namespace athanor::kernels
