// How a product is cut into blocks: by the measured costs of the kernel that makes them, so that the threads are ready
// first. No result depends on the cut but for its depth, which depends on the shape alone.
//
//   const Cut cut = choose_cut(amx_blocks, problem, threads, /*b_is_packed=*/false, amx_blocks.side);
//   // c [m,n] in blocks of cut.rows x cut.columns, k in pieces of cut.depth; all in elements
//
// Thread rule: functions of their arguments alone. No errors: lengths are at least 1, as in a GemmProblem.
#pragma once

#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor {

inline constexpr int64_t kUnit = 32;  // rows, columns and k that costs are counted in

// A block function and what the cutter must know of it. How much of b a block may span (depth times columns)
// is what the scratch of a thread holds beside packed rows of a and what a second-level cache keeps.
struct BlockKernel {
  void (*block)(const GemmBlock&);
  void (*pack_b)(const GemmBlock&, std::byte*);
  int64_t (*packed_bytes)(int64_t n, int64_t k);
  bool takes_sums;     // of earlier pieces of k where c is rounded, and a residual
  bool keeps_pairs;    // those sums are PairSums; c in f32 of two pieces aside
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

extern const BlockKernel amx_blocks, avx512_bf16_blocks, avx512_blocks, avx2_blocks;

struct Cut {
  int64_t rows, columns, depth;
};

// The length of parts of [0, length), all but the last of which are equal and whole multiples of `side`.
int64_t even_part(int64_t length, int64_t parts, int64_t side);

// The longest piece of k that is walked at once.
int64_t depth_of(const BlockKernel& kernel, const GemmProblem& p);

// The cut that has the threads ready first. Within a depth an element is the same sum whatever the block around it. Blocks
// have multiples of `side` columns.
Cut choose_cut(const BlockKernel& kernel, const GemmProblem& p, int64_t threads, bool b_is_packed,
               int64_t side);

// Rows of a block that are handed out at once: work for some tens of microseconds.
int64_t chunk_rows(const BlockKernel& kernel, const GemmProblem& p, const Cut& cut, int64_t threads);

}  // namespace athanor
