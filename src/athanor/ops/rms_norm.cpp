#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y = x * rstd * w,  rstd = 1 / sqrt(mean(x^2) + eps)
// with g = dy * w and x^ = x * rstd:   dx = rstd * (g - x^ * mean(g * x^)),   dw += sum over rows of dy * x^
// x, y [..., C];  w [C];  rstd [...] f32
struct RmsNorm {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor x, rstd;
    Weight* weight;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight, float eps) {
    Tensor y = empty_like(x);
    Tensor rstd = empty(x.arena(), x.shape().drop_last(), Dtype::f32, Category::activations);
    kernels_of(x).rms_norm.forward(x.queue(), y, rstd, x, weight.value(), eps);
    saved = {x, rstd, &weight};
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {input_gradient(saved, dy, nullptr, nullptr)};
  }
  static Tensor backward_input_onto(const Saved& saved, const Tensor& dy, const Tensor& base) {
    return input_gradient(saved, dy, &base, nullptr);
  }
  static Tensor backward(const Saved& saved, const Tensor& dy, const Tensor* base) {
    return input_gradient(saved, dy, base, &saved.weight->grad());
  }
  static Tensor input_gradient(const Saved& saved, const Tensor& dy, const Tensor* base, Tensor* dw) {
    Tensor dx = empty_like(saved.x);
    kernels_of(dy).rms_norm.backward(dy.queue(), dx, dy, saved.x, saved.weight->value(), saved.rstd, base,
                                     dw);
    return dx;
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    kernels_of(dy).rms_norm.backward_weight(dy.queue(), saved.weight->grad(), dy, saved.x, saved.rstd);
  }
};

}  // namespace

Var rms_norm(const Var& x, Weight& weight, float eps) {
  return apply<RmsNorm>(*x.tape, x, weight, eps);
}

}  // namespace athanor::ops
