// Chooses the blocks (tiles) of a product so that the threads finish soonest, from the measured costs of a block
// kernel. Results depend only on `depth` of the choice, and depth depends on the shape alone.
//
//   const Cut cut = choose_cut(amx_blocks, problem, threads, /*b_is_packed=*/false, amx_blocks.side);
//   // c [m,n] in blocks of cut.rows x cut.columns, k in ranges of cut.depth; all in elements
//
// Thread rule: functions of their arguments alone. No errors: lengths are at least 1, as in a GemmProblem.
#pragma once

#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/gemm_problem.h"

namespace athanor::kernels {

inline constexpr int64_t kUnit = 32;  // rows, columns and k that costs are counted in

// A block function with its limits and costs. max_elements, of b in a block (depth times columns), is what the scratch
// of a thread and the second-level cache hold beside packed rows of a.
struct BlockKernel {
  void (*block)(const GemmBlock&);
  void (*pack_b)(const GemmBlock&, std::byte*);
  int64_t (*packed_bytes)(int64_t n, int64_t k);
  bool takes_sums;     // GemmBlock::sums of earlier ranges of k where c is rounded, and a residual
  bool keeps_pairs;    // the sums are PairSums, except for c in f32 with two ranges of k
  bool packs_weights;  // uses PackedWeights: all of b is packed once a step
  int64_t group;       // rows of a that are multiplied by one panel of b before the next panel
  int64_t least_rows;  // fewest rows handed out at once where threads would wait for the last one
  int64_t max_depth, max_turned_depth;  // the longest range of k; the same for a transposed a
  int64_t max_narrow_depth;             // the same for a transposed a, if all columns of b fit in a block
  int64_t max_elements, max_columns;
  int64_t side;  // columns of a panel
  // Measured cycles: of a product of 32 x 32 x 32, and per 32 x 32 of packing a, packing a transposed a, packing b,
  // packing a b that is W^T, and writing c.
  int64_t product, pack_a, turn_a, pack_b_unit, pack_transposed, write_c;
};

extern const BlockKernel amx_blocks, avx512_bf16_blocks, avx512_blocks, avx2_blocks;

struct Cut {
  int64_t rows, columns, depth;
};

// The length of one of `parts` parts of [0, length): a multiple of `side`; the last part may be shorter.
int64_t even_part(int64_t length, int64_t parts, int64_t side);

// The longest range of k that a block may take at once.
int64_t depth_of(const BlockKernel& kernel, const GemmProblem& p);

// The blocks for which the threads finish soonest; their columns are a multiple of `side`. For one depth an element of
// c is the same sum whatever the block around it.
Cut choose_cut(const BlockKernel& kernel, const GemmProblem& p, int64_t threads, bool b_is_packed,
               int64_t side);

// Rows of a block that are handed out at once: work for some tens of microseconds.
int64_t chunk_rows(const BlockKernel& kernel, const GemmProblem& p, const Cut& cut, int64_t threads);

}  // namespace athanor::kernels
