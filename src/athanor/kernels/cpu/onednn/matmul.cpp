#include "athanor/kernels/cpu/onednn/matmul.h"

#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <map>
#include <vector>

namespace athanor {
namespace {

using dnnl::memory;

// oneDNN cuts its work by the number of OpenMP threads it sees, and sums of bf16 products then differ; every
// primitive is therefore made and run where this thread sees one.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

memory::data_type type_of(RowType type) {
  return type == kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// A primitive and the scratch memory it wants.
struct Product {
  dnnl::matmul primitive;
  memory::desc scratch;
};

// Primitives made once per block shape. One cache per thread, so that nothing is shared: what is cached
// depends on its key alone, hence no result depends on the thread.
class Primitives {
 public:
  void run(const GemmProblem& p, const GemmOperands& operands, bool bias, int64_t c_row) {
    const Key key{p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.in, p.out, p.accumulate, bias, c_row};
    const memory::desc a({p.m, p.k}, type_of(p.in), memory::dims{p.a_row, p.a_col});
    const memory::desc b({p.k, p.n}, type_of(p.in), memory::dims{p.b_row, p.b_col});
    const memory::desc c({p.m, p.n}, type_of(p.out), memory::dims{c_row, 1});
    const memory::desc shift =
        bias ? memory::desc({1, p.n}, type_of(p.in), memory::dims{p.n, 1}) : memory::desc();
    auto found = made_.find(key);
    if (found == made_.end()) {
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      if (p.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.f);
        attributes.set_post_ops(sum);
      }
      const auto product = bias ? dnnl::matmul::desc(a, b, shift, c) : dnnl::matmul::desc(a, b, c);
      const dnnl::matmul::primitive_desc made(product, attributes, engine_);
      if (made_.size() >= kMaxMade) made_.clear();
      found = made_.emplace(key, Product{dnnl::matmul(made), made.scratchpad_desc()}).first;
    }
    const auto& [primitive, scratch] = found->second;
    if (scratch.get_size() > scratch_.size()) scratch_.resize(scratch.get_size());
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, bound(a, operands.a)},
                                              {DNNL_ARG_WEIGHTS, bound(b, operands.b)},
                                              {DNNL_ARG_DST, bound(c, operands.c)},
                                              {DNNL_ARG_SCRATCHPAD, bound(scratch, scratch_.data())}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, bound(shift, operands.bias));
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  using Key = std::array<int64_t, 12>;
  static constexpr size_t kMaxMade = 256;  // block shapes of a run: some dozens

  memory bound(const memory::desc& desc, const void* data) const {
    return memory(desc, engine_, const_cast<void*>(data));  // oneDNN takes inputs as void* too
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Product> made_;
  std::vector<std::byte> scratch_;
};

// Long enough that packing b, which every block repeats, costs little; short enough for many threads.
constexpr int64_t kBlockRows = 512, kBlockColumns = 512;

void run(Queue& queue, Arena&, const GemmProblem& p, const GemmOperands& operands) {
  const int64_t columns = num_blocks(p.n, kBlockColumns);
  queue.parallel_for(num_blocks(p.m, kBlockRows) * columns, [&](int64_t index) {
    thread_local Primitives primitives;
    const int64_t i = index / columns * kBlockRows, j = index % columns * kBlockColumns;
    GemmProblem block = p;
    block.m = std::min(kBlockRows, p.m - i);
    block.n = std::min(kBlockColumns, p.n - j);
    const bool bias = operands.bias != nullptr;
    const OneThread one;
    primitives.run(block,
                   {offset(operands.a, i * p.a_row, p.in), offset(operands.b, j * p.b_col, p.in),
                    bias ? offset(operands.bias, j, p.in) : nullptr, offset(operands.c, i * p.n + j, p.out)},
                   bias, p.n);
  });
}

std::string refuses(const GemmProblem& p, Isa isa) {
  if (p.in != kBf16) return "for bf16; in f32 ours is as fast";
  // oneDNN reads the processor itself and would use more than was asked for.
  if (isa != best_isa() && isa >= Isa::avx512_bf16) return "takes the best instruction set only";
  return refuse_isa(Isa::avx512_bf16, isa);
}

}  // namespace

constinit const GemmCandidate onednn_gemm{"onednn", refuses, run};

}  // namespace athanor
