#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor::ops {
namespace {

// y[r] = x[tokens[r]];   dx[n] = sum over n's rows of dy, in the order of its choices
// x [..., C], y [R,C]
struct Dispatch {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Shape shape;
    std::shared_ptr<const Routing> routing;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x,
                        const std::shared_ptr<const Routing>& routing) {
    check(x.rows() == routing->places.dim(0), "dispatch: x {} has {} tokens, routed were {}", x.shape(),
          x.rows(), routing->places.dim(0));
    const int64_t width = x.dim(-1);
    Tensor y = empty(x.arena(), {routing->tokens.dim(0), width}, x.dtype(), Category::activations);
    kernels_of(x).token_rows.gather(x.queue(), y, x.view({x.rows(), width}), routing->tokens);
    saved = {x.shape(), routing};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty(dy.arena(), {saved.shape.rows(), dy.dim(1)}, dy.dtype(), Category::activations);
    kernels_of(dy).token_rows.gather_backward(dy.queue(), dx, dy, saved.routing->places);
    return {dx.view(saved.shape)};
  }
};

}  // namespace

Var dispatch(const Var& x, const std::shared_ptr<const Routing>& routing) {
  return apply<Dispatch>(*x.tape, x, routing);
}

}  // namespace athanor::ops
