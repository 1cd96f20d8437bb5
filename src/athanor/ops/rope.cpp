#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// Each pair (x[i], x[i + D/2]) is rotated by the angle of its position; the gradient is the rotation back.
// x, y [B,S,H,D];  cos, sin [P,D/2] f32
struct Rope {
  struct Saved {
    Tensor cos, sin;
    int64_t first_position;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const Tensor& cos,
                        const Tensor& sin, int64_t first_position) {
    Tensor y = empty_like(x);
    kernels(x).rope.apply(x.queue(), y, x, cos, sin, first_position, +1);
    saved = {cos, sin, first_position};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(dy);
    kernels(dy).rope.apply(dy.queue(), dx, dy, saved.cos, saved.sin, saved.first_position, -1);
    return {dx};
  }
};

}  // namespace

Var rope(const Var& x, const Tensor& cos, const Tensor& sin, int64_t first_position) {
  return apply<Rope>(*x.tape, x, cos, sin, first_position);
}

}  // namespace athanor
