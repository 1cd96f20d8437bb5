// The second half of a transformer block, which works on each token by itself: x [B,S,C] -> [B,S,C]. FeedForward is the
// interface; SwigluMlp is LLaMA's MLP; MoeLayer (nn/moe.h) is a mixture of experts.
//
//   SwigluMlp mlp(&block, "mlp", {.width = 512, .ffn_width = 1408, .bias = false});
//   Var y = mlp.add_to(h, norm(h), dropout);      // h + dropout(mlp(norm(h)))
//
// Thread rule: that of the model.
#pragma once

#include "athanor/nn/residual.h"

namespace athanor::nn {

class FeedForward : public Module {
 public:
  using Module::Module;
  virtual Var operator()(const Var& x) const = 0;
  // h + dropout(y), in one pass over the result where possible.
  virtual Var add_to(const Var& h, const Var& x, const Dropout& dropout) const {
    return add(h, dropout((*this)(x)));
  }
};

// y = down(swiglu(gate(x), up(x))) (Shazeer, "GLU variants improve transformer", 2020), with intermediate size
// F = ffn_width.
class SwigluMlp : public FeedForward {
 public:
  struct Options {
    int64_t width, ffn_width;
    bool bias;
    double init_std;         // of gate and up
    double output_init_std;  // of down
  };
  SwigluMlp(Module* parent, const std::string& name, const Options& o)
      : FeedForward(parent, name),
        gate_(this, "gate", o.width, o.ffn_width, o.bias, o.init_std),
        up_(this, "up", o.width, o.ffn_width, o.bias, o.init_std),
        down_(this, "down", o.ffn_width, o.width, o.bias, o.output_init_std) {}
  Var operator()(const Var& input) const override {
    const Var x = enter(input);
    return leave(down_(swiglu(gate_(x), up_(x))));
  }
  Var add_to(const Var& h, const Var& input, const Dropout& dropout) const override {
    if (leaves()) return FeedForward::add_to(h, input, dropout);
    const Var x = enter(input);
    return add_residual(h, down_, dropout, swiglu(gate_(x), up_(x)));
  }

 private:
  Linear gate_, up_, down_;
};

}  // namespace athanor::nn
