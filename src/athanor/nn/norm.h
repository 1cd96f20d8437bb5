// Normalizations over the last dimension, as modules: RMSNorm (Zhang & Sennrich, 2019) and LayerNorm (Ba et al., 2016).
// x [..., C] -> [..., C].
//
//   RmsNormLayer norm(&block, "norm", width, eps);
//   Var y = norm(x);
//
// Thread rule: that of the model.
#pragma once

#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"

namespace athanor::nn {

class RmsNormLayer : public Module {
 public:
  RmsNormLayer(Module* parent, const std::string& name, int64_t width, double eps)
      : Module(parent, name),
        weight_(declare("weight", {width}, Init::ones())),
        eps_(static_cast<float>(eps)) {}
  Var operator()(const Var& x) const { return rms_norm(x, weight_, eps_); }

 private:
  Weight& weight_;
  float eps_;
};

class LayerNormLayer : public Module {
 public:
  LayerNormLayer(Module* parent, const std::string& name, int64_t width, bool bias, double eps)
      : Module(parent, name),
        weight_(declare("weight", {width}, Init::ones())),
        bias_(bias ? &declare("bias", {width}, Init::zeros()) : nullptr),
        eps_(static_cast<float>(eps)) {}
  Var operator()(const Var& x) const { return layer_norm(x, weight_, bias_, eps_); }

 private:
  Weight& weight_;
  Weight* bias_;
  float eps_;
};

}  // namespace athanor::nn
