#include "athanor/kernels/cpu/gemm_blocks.h"

#include <sys/mman.h>

#include <memory>
#include <new>

#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor {
namespace {

// Packed operands live in memory of the thread that packs them, not of the arena: it is the same 2 MiB for
// every product of any shape, so it stays in that thread's cache. (The arena cannot know how many threads
// there will be when it plans.)
class Scratch {
 public:
  Scratch() : data_(static_cast<std::byte*>(::operator new(kSize, kAlignment))) {
    ::madvise(data_, kSize, MADV_HUGEPAGE);
  }
  ~Scratch() { ::operator delete(data_, kSize, kAlignment); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() { return data_; }

 private:
  static constexpr size_t kSize = kGemmScratchBytes;
  static constexpr std::align_val_t kAlignment{kSize};
  std::byte* data_;
};

struct Cut {
  int64_t rows, columns, depth;
};

constexpr int64_t kSide = 32;  // blocks are whole panels

// The length of parts of [0, length), all but the last of which are equal and whole panels.
int64_t even_part(int64_t length, int64_t parts) {
  return num_blocks(num_blocks(length, parts), kSide) * kSide;
}

// Cycles for a block, measured: a product of two panels, and packing or writing a panel of 32 k.
int64_t estimated_cycles(const GemmProblem& p, const Cut& cut) {
  const int64_t steps = num_blocks(cut.depth, kSide);
  const int64_t rows = num_blocks(cut.rows, kSide), columns = num_blocks(cut.columns, kSide);
  return steps * (rows * columns * 80 + rows * (p.a_col == 1 ? 60 : 200) + columns * 200) +
         rows * columns * 100;
}

// The cut that has the threads ready first. No result depends on it but for the depth, which depends on k
// alone: within a depth an element is one sum over ascending k, whatever the block around it.
Cut choose_cut(const GemmProblem& p, int64_t threads) {
  Cut best{};
  best.depth = even_part(p.k, num_blocks(p.k, p.accumulate ? amx::kMaxAddedDepth : amx::kMaxDepth));
  const int64_t widest = std::min(amx::kMaxColumns, amx::kMaxElements / best.depth / kSide * kSide);
  const int64_t fewest = num_blocks(p.n, widest), most = 4 * threads;  // parts; more would only be shorter
  int64_t best_cycles = INT64_MAX;
  for (int64_t across = fewest; across == fewest || across <= most; ++across) {
    for (int64_t down = 1; down == 1 || across * down <= most; ++down) {
      const Cut cut{even_part(p.m, down), even_part(p.n, across), best.depth};
      if (cut.columns > widest) continue;
      const int64_t blocks = num_blocks(p.m, cut.rows) * num_blocks(p.n, cut.columns);
      const int64_t cycles = num_blocks(blocks, threads) * estimated_cycles(p, cut);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = cut;
    }
  }
  return best;
}

// One range of k, all blocks of c.
void run_depth(Queue& queue, const GemmProblem& p, const GemmOperands& operands, const Cut& cut) {
  const int64_t row_blocks = num_blocks(p.m, cut.rows);
  // Neighbours in time share their columns of b.
  queue.parallel_for(row_blocks * num_blocks(p.n, cut.columns), [&](int64_t index) {
    thread_local Scratch scratch;
    const int64_t i = index % row_blocks * cut.rows, j = index / row_blocks * cut.columns;
    amx::gemm_block({std::min(cut.rows, p.m - i), std::min(cut.columns, p.n - j), p.k,
                     offset(operands.a, i * p.a_row, p.in), p.a_row, p.a_col,
                     offset(operands.b, j * p.b_col, p.in), p.b_row, p.b_col,
                     operands.bias == nullptr ? nullptr : offset(operands.bias, j, p.in),
                     offset(operands.c, i * p.n + j, p.out), p.n, p.in, p.out, p.accumulate, scratch.data()});
  });
}

void run(Queue& queue, Arena& arena, const GemmProblem& p, const GemmOperands& operands) {
  const Cut blocks = choose_cut(p, queue.num_threads());
  if (blocks.depth >= p.k) return run_depth(queue, p, operands, blocks);
  Tensor sums;
  if (p.out != kF32) sums = empty(arena, {p.m, p.n}, Dtype::f32, Category::workspace);
  GemmProblem part = p;
  part.out = kF32;
  for (int64_t l = 0; l < p.k; l += blocks.depth) {
    part.k = std::min(blocks.depth, p.k - l);
    part.accumulate = p.accumulate || l > 0;
    run_depth(queue, part,
              {offset(operands.a, l * p.a_col, p.in), offset(operands.b, l * p.b_row, p.in),
               l == 0 ? operands.bias : nullptr, sums.defined() ? sums.raw() : operands.c},
              blocks);
  }
  if (!sums.defined()) return;
  const auto from_f32 = choose(queue, &RowTable::elementwise, p.out, &ElementwiseRows::from_f32).from_f32;
  for_blocks(queue, p.m * p.n, kBlockElements, [&](int64_t first, int64_t count) {
    from_f32(offset(operands.c, first, p.out), sums.data<float>() + first, count);
  });
}

std::string refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kBf16) return "for bf16 only";
  return refuse_isa(Isa::amx, isa);
}

}  // namespace

constinit const GemmCandidate amx_gemm{"amx", refuses, run};

}  // namespace athanor
