#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor::ops {
namespace {

// logits = x . gate^T, kept in f32: softmax and top-k see more digits than T has
// x [..., C] T, gate [E,C] T, logits, dlogits [N,E] f32;   dx = dlogits . gate,   dgate += dlogits^T . x
struct RouterLogits {
  struct Saved {
    Tensor x;
    Weight* gate;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& gate) {
    const Tensor& w = gate.value();
    check(w.shape().dims() == 2 && x.dim(-1) == w.dim(1), "router: x {} must end in the columns of '{}' {}",
          x.shape(), gate.param().name(), w.shape());
    Tensor logits = empty(x.arena(), {x.rows(), w.dim(0)}, Dtype::f32, Category::activations);
    kernels_of(x).gemm.nt(x.queue(), logits, x, w, nullptr);
    saved = {x, &gate};
    return logits;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(saved.x);
    kernels_of(dy).gemm.nn(dy.queue(), dx, in_type_of(saved.x, dy), saved.gate->value());
    return {dx};
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    const auto slot = saved.gate->grad_slot();
    kernels_of(dy).gemm.tn(dy.queue(), slot.tensor, in_type_of(saved.x, dy), saved.x, slot.add);
  }

 private:
  static Tensor in_type_of(const Tensor& x, const Tensor& dy) {
    if (x.dtype() == dy.dtype()) return dy;
    Tensor cast = empty(x.arena(), dy.shape(), x.dtype(), Category::workspace);
    kernels_of(x).elementwise.cast(x.queue(), cast, dy);
    return cast;
  }
};

}  // namespace

Var router_logits(const Var& x, Weight& gate) {
  return apply<RouterLogits>(*x.tape, x, gate);
}

}  // namespace athanor::ops
