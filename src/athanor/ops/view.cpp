#include "athanor/autograd/apply.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// The same elements under another shape; the gradient goes back under the first one.
struct View {
  struct Saved {
    Shape shape;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const Shape& shape) {
    saved = {x.shape()};
    return x.view(shape);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {dy.view(saved.shape)};
  }
};

}  // namespace

Var view(const Var& x, const Shape& shape) {
  return apply<View>(*x.tape, x, shape);
}

}  // namespace athanor::ops
