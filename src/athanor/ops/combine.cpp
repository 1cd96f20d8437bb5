#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/moe.h"

namespace athanor::ops {
namespace {

// y[n] = sum over k of weights[n,k] . x[places[n,k]]             x [R,C], weights [N,K] f32, y [..., C]
// dx[places[n,k]] = weights[n,k] . dy[n],   dweights[n,k] = dy[n] . x[places[n,k]]
struct Combine {
  struct Saved {
    Tensor x, weights;
    std::shared_ptr<const Routing> routing;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const Tensor& weights,
                        const std::shared_ptr<const Routing>& routing, const Shape& shape) {
    check(x.dim(0) == routing->tokens.dim(0), "combine: got {} rows, routed were {}", x.dim(0),
          routing->tokens.dim(0));
    Tensor y = empty(x.arena(), shape, x.dtype(), Category::activations);
    Tensor rows = y.view({y.rows(), y.dim(-1)});
    kernels_of(x).token_rows.combine(x.queue(), rows, x, weights, routing->places);
    saved = {x, weights, routing};
    return y;
  }
  static std::array<Tensor, 2> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(saved.x), dweights = empty_like(saved.weights);
    kernels_of(dy).token_rows.combine_backward(dy.queue(), dx, dweights, dy.view({dy.rows(), dy.dim(-1)}),
                                               saved.x, saved.weights, saved.routing->places);
    return {dx, dweights};
  }
};

}  // namespace

Var combine(const Var& x, const Var& weights, const std::shared_ptr<const Routing>& routing,
            const Shape& shape) {
  return apply<Combine>(*x.tape, x, weights, routing, shape);
}

}  // namespace athanor::ops
