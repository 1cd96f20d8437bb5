// Operations small enough to see that they are right, for tests of what records and walks them. All f32, flat loops.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "athanor/autograd/apply.h"
#include "support/engine.h"

namespace athanor::tests {

template <typename Of>
Tensor mapped(const Tensor& like, const Of& of) {
  Tensor y = empty_like(like);
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = of(i);
  return y;
}

// y = x^2
struct Square {
  static constexpr bool kCheapToRecompute = true;
  struct Saved {
    Tensor x;
  };
  static inline int forwards = 0;  // how often it was computed
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x) {
    ++forwards;
    saved = {x};
    return mapped(x, [&](int64_t i) { return x.data<float>()[i] * x.data<float>()[i]; });
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {mapped(dy, [&](int64_t i) { return 2.0f * saved.x.data<float>()[i] * dy.data<float>()[i]; })};
  }
};

// y = a + factor b
struct AddScaled {
  struct Saved {
    float factor;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& a, const Tensor& b, float factor) {
    saved = {factor};
    return mapped(a, [&](int64_t i) { return a.data<float>()[i] + factor * b.data<float>()[i]; });
  }
  static std::array<Tensor, 2> backward_input(const Saved& saved, const Tensor& dy) {
    return {dy, mapped(dy, [&](int64_t i) { return saved.factor * dy.data<float>()[i]; })};
  }
};

// y_i = w_i x_i; who runs which part writes it down.
struct Weighted {
  struct Saved {
    Tensor x;
    Weight* weight;
  };
  static inline std::vector<std::string> parts;
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Weight& weight) {
    saved = {x, &weight};
    const Tensor& w = weight.value();
    return mapped(x, [&](int64_t i) { return w.data<float>()[i] * x.data<float>()[i]; });
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    parts.push_back("input of " + saved.weight->use());
    const Tensor& w = saved.weight->value();
    return {mapped(dy, [&](int64_t i) { return w.data<float>()[i] * dy.data<float>()[i]; })};
  }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    parts.push_back("weight " + saved.weight->use());
    Tensor& sum = saved.weight->grad();
    for (int64_t i = 0; i < dy.numel(); ++i)
      sum.data<float>()[i] += saved.x.data<float>()[i] * dy.data<float>()[i];
  }
};

struct TapeTest : ::testing::Test {
  TapeTest() {
    Weighted::parts.clear();
    Square::forwards = 0;
  }
  Tensor values(const std::vector<float>& of) {
    Tensor x = empty(engine.arena, {static_cast<int64_t>(of.size())}, Dtype::f32, Category::activations);
    copy_from_host(x, of.data(), x.size_bytes());
    return x;
  }
  // A weight of one use that holds these values, with a gradient slot of zeros.
  Weight& weight(const std::string& name, const std::vector<float>& of) {
    params.push_back(std::make_unique<Param>(name, Shape{static_cast<int64_t>(of.size())}, Init::zeros()));
    params.back()->allocate(engine.arena, Dtype::f32, false);
    params.back()->store_whole(of.data());
    Weight& use = params.back()->add_use(name);
    use.set_grad(zeros(engine.arena, params.back()->shape(), Dtype::f32, Category::gradients));
    return use;
  }
  uint64_t activation_bytes() const {
    return engine.arena.usage().current[static_cast<size_t>(Category::activations)];
  }

  Engine engine;
  std::vector<std::unique_ptr<Param>> params;
};

}  // namespace athanor::tests
