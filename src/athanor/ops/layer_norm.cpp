#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y = x^ * w + b,  x^ = (x - mean) * rstd,  rstd = 1 / sqrt(var + eps)
// with g = dy * w:   dx = rstd * (g - mean(g) - x^ * mean(g * x^)),   dw += sum of dy * x^,   db += sum of dy
// x, y [..., C];  w, b [C];  mean, rstd [...] f32
struct LayerNorm {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor x, mean, rstd;
    Weight* weight;
    Weight* bias;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight, Weight* bias,
                        float eps) {
    Tensor y = empty_like(x);
    Tensor mean = empty(x.arena(), x.shape().drop_last(), Dtype::f32, Category::activations);
    Tensor rstd = empty_like(mean);
    kernels_of(x).layer_norm.forward(x.queue(), y, mean, rstd, x, weight.value(),
                                     bias == nullptr ? nullptr : &bias->value(), eps);
    saved = {x, mean, rstd, &weight, bias};
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
    kernels_of(dy).layer_norm.backward(dy.queue(), dx, dy, saved.x, saved.weight->value(), saved.mean,
                                       saved.rstd, base, dw, dw == nullptr ? nullptr : bias_gradient(saved));
    return dx;
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    kernels_of(dy).layer_norm.backward_weight(dy.queue(), saved.weight->grad(), bias_gradient(saved), dy,
                                              saved.x, saved.mean, saved.rstd);
  }
  static Tensor* bias_gradient(const Saved& saved) {
    return saved.bias == nullptr ? nullptr : &saved.bias->grad();
  }
};

}  // namespace

Var layer_norm(const Var& x, Weight& weight, Weight* bias, float eps) {
  return apply<LayerNorm>(*x.tape, x, weight, bias, eps);
}

}  // namespace athanor::ops
