#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// y = x . W^T + b          x [..., I], W [O,I], b [O], y [..., O]
// dx = dy . W,   dW += dy^T . x,   db += sum over rows of dy
struct Linear {
  struct Saved {
    Tensor x;
    Weight* weight;
    Weight* bias;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight, Weight* bias) {
    const Tensor& w = weight.value();
    check(w.shape().dims() == 2 && x.dim(-1) == w.dim(1), "linear: x {} must end in the columns of '{}' {}",
          x.shape(), weight.param().name(), w.shape());
    Tensor y = empty(x.arena(), x.shape().with_last(w.dim(0)), x.dtype(), Category::activations);
    kernels(x).gemm.nt(x.queue(), y, x, w, bias == nullptr ? nullptr : &bias->value());
    saved = {x, &weight, bias};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(saved.x);
    kernels(dy).gemm.nn(dy.queue(), dx, dy, saved.weight->value());
    return {dx};
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    const auto slot = saved.weight->grad_slot();
    kernels(dy).gemm.tn(dy.queue(), slot.tensor, dy, saved.x, slot.add);
    if (saved.bias != nullptr) kernels(dy).elementwise.column_sum(dy.queue(), saved.bias->grad(), dy);
  }
};

}  // namespace

Var linear(const Var& x, Weight& weight, Weight* bias) {
  return apply<Linear>(*x.tape, x, weight, bias);
}

}  // namespace athanor
