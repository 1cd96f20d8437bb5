// Linear layer: y = x . W^T (+ b);  x [..., in], W [out, in], b [out], y [..., out].
//
//   Linear up(&mlp, "up", 768, 3072, /*bias=*/true, /*init_std=*/0.02);
//   Var y = up(x);
//
// Thread rule: that of the model.
#pragma once

#include "athanor/nn/module.h"
#include "athanor/nn/rope_table.h"
#include "athanor/ops/ops.h"

namespace athanor::nn {

class Linear : public Module {
 public:
  Linear(Module* parent, const std::string& name, int64_t in, int64_t out, bool bias, double init_std)
      : Module(parent, name),
        weight_(&declare("weight", {out, in}, Init::normal(init_std))),
        bias_(bias ? &declare("bias", {out}, Init::zeros()) : nullptr) {}
  // Tied weight: computes with a parameter that another module declared.
  Linear(Module* parent, const std::string& name, Param& shared)
      : Module(parent, name), weight_(&share(shared)), bias_(nullptr) {}

  // Replaces the product and leave(): for a layout that communicates the product while it is computed
  // (parallel/tensor/overlapped_linear.h).
  using Product = std::function<Var(const Var& x, Weight& weight, Weight* bias)>;
  void set_product(Product product) { product_ = std::move(product); }

  Var operator()(const Var& x) const {
    if (product_) return product_(enter(x), *weight_, bias_);
    return leave(linear(enter(x), *weight_, bias_));
  }
  // h + y; in one pass over the result if leave() is the identity.
  Var add_to(const Var& h, const Var& x) const {
    return leaves() ? add(h, (*this)(x)) : linear_add(h, enter(x), *weight_, bias_);
  }
  // The product with rotary embedding applied to its heads: x [B,S,in] -> [B,S,H,D]. Error if the layer has a leave().
  Var rotated(const Var& x, int64_t head_dim, const RopeTable& table, int64_t first_position) const {
    check(!leaves(), "linear: '{}' is rotated before its results leave", path());
    return linear_rope(enter(x), *weight_, bias_, head_dim, table.cos, table.sin, first_position);
  }
  Weight& weight() const { return *weight_; }

 private:
  Weight* weight_;
  Weight* bias_;
  Product product_;  // set where leaves() is true
};

}  // namespace athanor::nn
