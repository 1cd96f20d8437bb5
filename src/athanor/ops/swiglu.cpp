#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y = silu(gate) * up                                                       all [..., F]
struct Swiglu {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor gate, up;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& gate, const Tensor& up) {
    Tensor y = empty_like(gate);
    kernels_of(gate).swiglu.forward(gate.queue(), y, gate, up);
    saved = {gate, up};
    return y;
  }
  static std::array<Tensor, 2> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dup = dy.unshared() ? dy : empty_like(dy), dgate = empty_like(dy);
    kernels_of(dy).swiglu.backward(dy.queue(), dgate, dup, dy, saved.gate, saved.up);
    return {dgate, dup};
  }
};

}  // namespace

Var swiglu(const Var& gate, const Var& up) {
  return apply<Swiglu>(*gate.tape, gate, up);
}

}  // namespace athanor::ops
