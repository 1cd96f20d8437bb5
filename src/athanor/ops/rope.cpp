#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
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
    const SequencePart* part;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, const Tensor& cos,
                        const Tensor& sin, int64_t first_position) {
    saved = {cos, sin, first_position, context.part};
    return turn(saved, x, +1);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {turn(saved, dy, -1)};
  }

  static Tensor turn(const Saved& saved, const Tensor& x, int sign) {
    const auto& [cos, sin, first_position, part] = saved;
    Tensor y = empty_like(x);
    if (part == nullptr)
      kernels(x).rope.apply(x.queue(), y, x, cos, sin, first_position, sign);
    else
      kernels(x).rope.apply(x.queue(), y, x, rows_at(*part, cos), rows_at(*part, sin), 0, sign);
    return y;
  }
};

}  // namespace

Var rope(const Var& x, const Tensor& cos, const Tensor& sin, int64_t first_position) {
  return apply<Rope>(*x.tape, x, cos, sin, first_position);
}

}  // namespace athanor
