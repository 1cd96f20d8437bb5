#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y = gelu(x)                                                               x, y [..., F]
struct Gelu {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor x;
    GeluForm form;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, GeluForm form) {
    Tensor y = empty_like(x);
    kernels_of(x).gelu.forward(x.queue(), y, x, form);
    saved = {x, form};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = dy.unshared() ? dy : empty_like(dy);
    kernels_of(dy).gelu.backward(dy.queue(), dx, dy, saved.x, saved.form);
    return {dx};
  }
};

}  // namespace

Var gelu(const Var& x, GeluForm form) {
  return apply<Gelu>(*x.tape, x, form);
}

}  // namespace athanor::ops
