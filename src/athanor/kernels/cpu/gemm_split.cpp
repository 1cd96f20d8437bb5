#include "athanor/kernels/cpu/gemm_split.h"

#include "athanor/kernels/cpu/gemm_block.h"
#include "athanor/kernels/cpu/gemm_scratch.h"
#include "athanor/kernels/cpu/split_block.h"

namespace athanor::kernels {
namespace {

// Length of a range of k. A panel of a must stay in the first-level cache. A sum within a range has six terms for each
// product, so ranges are short: the errors stay those of a plain f32 sum.
constexpr int64_t kMaxDepth = 192;
constexpr int64_t kMaxColumns = 512;  // of a block: its b takes 576 KiB of the second-level cache

static_assert(split_scratch_bytes(kMaxColumns, kMaxDepth) <= kGemmScratchBytes);

struct Cut {
  int64_t rows, columns;
};

// The length of one of `parts` parts of [0, length): a multiple of a unit; the last part may be shorter.
int64_t even_part(int64_t length, int64_t parts) {
  return std::max<int64_t>(1, num_blocks(num_blocks(length, parts), kSplitSide)) * kSplitSide;
}

// Measured cycles: of a product of 32 x 32 x 32, of splitting a unit of an operand in place and transposed, of writing
// 32 x 32 of c.
int64_t estimated_cycles(const GemmProblem& p, const Cut& cut) {
  constexpr int64_t kProduct = 440, kPack = 500, kTurn = 600, kWrite = 150, kStart = 2000;
  const int64_t rows = num_blocks(cut.rows, kSplitSide), columns = num_blocks(cut.columns, kSplitSide);
  const int64_t steps = num_blocks(p.k, kSplitSide), pieces = num_blocks(p.k, kMaxDepth);
  const int64_t a = p.a_col == 1 ? kPack : kTurn, b = p.b_col == 1 ? kPack : kTurn;
  return kStart + steps * (rows * columns * kProduct + rows * a + columns * b) +
         rows * columns * pieces * kWrite;
}

// The blocks for which the threads finish soonest; no result depends on them.
Cut choose_cut(const GemmProblem& p, int64_t threads) {
  Cut best{};
  int64_t best_cycles = INT64_MAX;
  const int64_t fewest = num_blocks(p.n, kMaxColumns), most = 4 * threads;
  for (int64_t across = fewest; across == fewest || across <= most; ++across) {
    for (int64_t down = 1; down == 1 || across * down <= most; ++down) {
      const Cut cut{even_part(p.m, down), even_part(p.n, across)};
      const int64_t blocks = num_blocks(p.m, cut.rows) * num_blocks(p.n, cut.columns);
      const int64_t cycles = num_blocks(blocks, threads) * estimated_cycles(p, cut);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = cut;
    }
  }
  return best;
}

const float* floats(const void* data) {
  return static_cast<const float*>(data);
}

void run(Queue& queue, Arena&, const GemmProblem& p, const GemmOperands& operands) {
  const Cut cut = choose_cut(p, queue.num_threads());
  const int64_t depth = even_part(p.k, num_blocks(p.k, kMaxDepth));
  const int64_t down = num_blocks(p.m, cut.rows);
  queue.parallel_for(down * num_blocks(p.n, cut.columns), [&](int64_t index) {
    const int64_t i = index % down * cut.rows, j = index / down * cut.columns;
    amx::split_block({.m = std::min(cut.rows, p.m - i),
                      .n = std::min(cut.columns, p.n - j),
                      .k = p.k,
                      .depth = depth,
                      .a = floats(operands.a) + i * p.a_row,
                      .a_row = p.a_row,
                      .a_col = p.a_col,
                      .b = floats(operands.b) + j * p.b_col,
                      .b_row = p.b_row,
                      .b_col = p.b_col,
                      .bias = operands.bias == nullptr ? nullptr : floats(operands.bias) + j,
                      .c = static_cast<float*>(operands.c) + i * p.n + j,
                      .c_row = p.n,
                      .accumulate = p.accumulate,
                      .scratch = gemm_scratch()});
  });
}

std::string refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kF32) return "for f32";
  if (p.a_col != 1 && p.b_col != 1) return "for no more than one operand read against its rows";
  return refuse_isa(Isa::amx, isa);
}

}  // namespace

constinit const GemmCandidate split_gemm{"amx-f32", false, false, false, refuses, run};

}  // namespace athanor::kernels
