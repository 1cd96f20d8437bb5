#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y = x . W^T + b          x [..., I], W [O,I], b [O], y [..., O]
// dx = dy . W,   dW += dy^T . x,   db += sum over rows of dy
// Where W is partitioned along I, y is partial: the first rank adds the bias and has its gradient.
struct Linear {
  struct Saved {
    Tensor x;
    Weight* weight;
    Weight* bias;
  };

  // Returns the shape of y.
  static Shape save(Saved& saved, const Tensor& x, Weight& weight, Weight* bias) {
    const Tensor& w = weight.value();
    check(w.shape().dims() == 2 && x.dim(-1) == w.dim(1), "linear: x {} must end in the columns of '{}' {}",
          x.shape(), weight.param().name(), w.shape());
    saved = {x, &weight, weight.param().part(1).rank == 0 ? bias : nullptr};
    return x.shape().with_last(w.dim(0));
  }
  static Tensor begin(Saved& saved, const Tensor& x, Weight& weight, Weight* bias) {
    return empty(x.arena(), save(saved, x, weight, bias), x.dtype(), Category::activations);
  }
  static const Tensor* value_of(const Weight* weight) {
    return weight == nullptr ? nullptr : &weight->value();
  }

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight, Weight* bias) {
    Tensor y = begin(saved, x, weight, bias);
    kernels_of(x).gemm.nt(x.queue(), y, x, weight.value(), value_of(saved.bias));
    return y;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    Tensor dx = empty_like(saved.x);
    kernels_of(dy).gemm.nn(dy.queue(), dx, dy, saved.weight->value());
    return {dx};
  }
  static Tensor backward_input_onto(const Saved& saved, const Tensor& dy, const Tensor& base) {
    Tensor dx = empty_like(saved.x);
    kernels_of(dy).gemm.nn_add(dy.queue(), dx, dy, saved.weight->value(), base);
    return dx;
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    const auto slot = saved.weight->grad_slot();
    const GemmKernels& gemm = kernels_of(dy).gemm;
    if (saved.bias == nullptr) return gemm.tn(dy.queue(), slot.tensor, dy, saved.x, slot.add);
    gemm.tn_sums(dy.queue(), slot.tensor, saved.bias->grad(), dy, saved.x, slot.add);
  }
};

// y = h + (x . W^T + b);   dh = dy, the rest as above                                          h, y [..., O]
struct LinearAdd {
  using Saved = Linear::Saved;

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& h, const Tensor& x, Weight& weight,
                        Weight* bias) {
    Tensor y = Linear::begin(saved, x, weight, bias);
    kernels_of(x).gemm.nt_add(x.queue(), y, x, weight.value(), Linear::value_of(saved.bias), h);
    return y;
  }
  static std::array<Tensor, 2> backward_input(const Saved& saved, const Tensor& dy) {
    return {dy, Linear::backward_input(saved, dy)[0]};
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) { Linear::backward_weight(saved, dy); }
};

// y = rope(x . W^T + b), every head of a row rotated by the angle of its position; the gradient is rotated back first.
// x [B,S,I], y [B,S,H,D];  cos, sin [P,D/2] f32
struct LinearRope : Linear {
  struct Saved : Linear::Saved {
    Tensor cos, sin;
    int64_t first_position;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Weight& weight,
                        Weight* bias, int64_t head_dim, const Tensor& cos, const Tensor& sin,
                        int64_t first_position) {
    const Shape rows = save(saved, x, weight, bias);
    check(rows.dims() == 3 && head_dim > 0 && rows[2] % head_dim == 0,
          "linear_rope: got heads of {}, expected x . '{}'^T {} to be [B,S] rows of whole heads", head_dim,
          weight.param().name(), rows);
    const SequencePart* part = context.part;
    saved.cos = part == nullptr ? cos : rows_at(*part, cos);
    saved.sin = part == nullptr ? sin : rows_at(*part, sin);
    saved.first_position = part == nullptr ? first_position : 0;
    Tensor y =
        empty(x.arena(), {rows[0], rows[1], rows[2] / head_dim, head_dim}, x.dtype(), Category::activations);
    kernels_of(x).gemm.nt_rope(x.queue(), y, x, weight.value(), value_of(saved.bias), saved.cos, saved.sin,
                               saved.first_position);
    return y;
  }
  static Tensor begin_backward(const Saved& saved, Tensor dy) {
    Tensor back = dy.unshared() ? dy : empty_like(dy);
    kernels_of(dy).rope.apply(dy.queue(), back, dy, saved.cos, saved.sin, saved.first_position, -1);
    return back.view(saved.x.shape().with_last(dy.dim(2) * dy.dim(3)));
  }
};

// Linear whose rows are computed when `make` calls for them.
struct LinearInPieces : Linear {
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight, Weight* bias,
                        const MakeOfRows& make) {
    const Shape shape = save(saved, x, weight, bias);
    const Tensor by_row = x.view({x.rows(), x.dim(-1)});
    return make(shape, [&](Tensor& y, int64_t first) {
      kernels_of(x).gemm.nt(x.queue(), y, by_row.slice(first, first + y.dim(0)), weight.value(),
                            value_of(saved.bias));
    });
  }
};

}  // namespace

Var linear(const Var& x, Weight& weight, Weight* bias) {
  return apply<Linear>(*x.tape, x, weight, bias);
}

Var linear_rope(const Var& x, Weight& weight, Weight* bias, int64_t head_dim, const Tensor& cos,
                const Tensor& sin, int64_t first_position) {
  return apply<LinearRope>(*x.tape, x, weight, bias, head_dim, cos, sin, first_position);
}

Var linear_in_pieces(const Var& x, Weight& weight, Weight* bias, const MakeOfRows& make) {
  return apply<LinearInPieces>(*x.tape, x, weight, bias, make);
}

Var linear_add(const Var& h, const Var& x, Weight& weight, Weight* bias) {
  return apply<LinearAdd>(*x.tape, h, x, weight, bias);
}

}  // namespace athanor::ops
