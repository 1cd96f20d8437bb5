#include <numeric>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor::ops {
namespace {

// One product per expert over its rows, without padding: y[rows of e] = x[rows of e] . weight[e]^T
// x [R,I], weight [E,O,I], y [R,O], counts [E] with sum R
// dx[rows of e] = dy[rows of e] . weight[e],   dweight[e] += dy[rows of e]^T . x[rows of e]
struct ExpertLinear {
  struct Saved {
    Tensor x;
    Weight* weight;
    std::vector<int64_t> counts;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight,
                        const std::vector<int64_t>& counts) {
    const Tensor& w = weight.value();
    check(w.shape().dims() == 3 && x.shape().dims() == 2 && x.dim(1) == w.dim(2),
          "expert_linear: x {} must end in the columns of '{}' {}", x.shape(), weight.param().name(),
          w.shape());
    check(std::ssize(counts) == w.dim(0), "expert_linear: got counts of {} experts, '{}' is {}",
          counts.size(), weight.param().name(), w.shape());
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    check(rows == x.dim(0), "expert_linear: got {} rows, their counts sum to {}", x.dim(0), rows);
    Tensor y = empty(x.arena(), {rows, w.dim(1)}, x.dtype(), Category::activations);
    for_experts(counts, [&](int64_t e, int64_t first, int64_t last) {
      Tensor part = y.slice(first, last);
      kernels_of(x).gemm.nt(x.queue(), part, x.slice(first, last), matrix(w, e), nullptr);
    });
    saved = {x, &weight, counts};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(saved.x);
    for_experts(saved.counts, [&](int64_t e, int64_t first, int64_t last) {
      Tensor part = dx.slice(first, last);
      kernels_of(dy).gemm.nn(dy.queue(), part, dy.slice(first, last), matrix(saved.weight->value(), e));
    });
    return {dx};
  }
  // The gradient of an expert without rows is zero. It is written only if the slot's content is stale.
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    const auto slot = saved.weight->grad_slot();
    for_experts(saved.counts, [&](int64_t e, int64_t first, int64_t last) {
      Tensor grad = matrix(slot.tensor, e);
      kernels_of(dy).gemm.tn(dy.queue(), grad, dy.slice(first, last), saved.x.slice(first, last), slot.add);
    });
  }

 private:
  static Tensor matrix(const Tensor& stack, int64_t e) {
    return stack.slice(e, e + 1).view({stack.dim(1), stack.dim(2)});
  }
  template <typename Body>
  static void for_experts(const std::vector<int64_t>& counts, const Body& body) {
    int64_t first = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      body(static_cast<int64_t>(e), first, first + counts[e]);
      first += counts[e];
    }
  }
};

}  // namespace

Var expert_linear(const Var& x, Weight& weight, const std::vector<int64_t>& counts) {
  return apply<ExpertLinear>(*x.tape, x, weight, counts);
}

}  // namespace athanor::ops
