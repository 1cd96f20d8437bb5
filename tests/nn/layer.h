// A module as the root of its own tree, with its parameters in memory, and the plain loops to hold it against.
//
//   Rooted<Linear> layer(engine, "up", 7, 5, true, 0.5);
//   const std::vector<float> y = layer.of(engine.random({2, 3, 7}, "x"));
//   naive_linear(x, layer.values("up.weight"), layer.values("up.bias"))
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/nn/module.h"
#include "support/engine.h"

namespace athanor::tests {

using Floats = std::vector<float>;

template <typename Layer>
struct Rooted : Module {
  template <typename... Arguments>
  explicit Rooted(Engine& engine, const std::string& name, const Arguments&... arguments)
      : Module(nullptr, ""), layer(this, name, arguments...) {
    for (const auto& param : params()) {
      param->allocate(engine.arena, Dtype::f32, false);
      param->initialize(3);
    }
    // Norms begin as ones and biases as zeros, which would hide whether they are used.
    for (const auto& param : params())
      if (!param->is_matrix() && !param->is_state())
        param->store_whole(to_floats(engine.random(param->shape(), param->name())).data());
  }
  const Param& param(const std::string& name) const {
    for (const auto& each : params())
      if (each->name() == name) return *each;
    fail("test: no parameter '{}'", name);
  }
  Floats values(const std::string& name) const { return to_floats(param(name).value()); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& each : params()) all.push_back(each->name());
    return all;
  }
  template <typename... More>
  Floats of(const Tensor& x, const More&... more) const {
    Tape tape(PassContext{});
    return to_floats(layer(tape.constant(x), more...).value);
  }
  Layer layer;
};

// x [n,I], w [O,I], b [O] or empty -> [n,O]
inline Floats naive_linear(const Floats& x, const Floats& w, const Floats& b, size_t inputs) {
  const size_t rows = x.size() / inputs, outputs = w.size() / inputs;
  Floats y(rows * outputs);
  for (size_t n = 0; n < rows; ++n)
    for (size_t o = 0; o < outputs; ++o) {
      double sum = b.empty() ? 0.0 : static_cast<double>(b[o]);
      for (size_t i = 0; i < inputs; ++i)
        sum += static_cast<double>(x[n * inputs + i]) * static_cast<double>(w[o * inputs + i]);
      y[n * outputs + o] = static_cast<float>(sum);
    }
  return y;
}

inline void expect_close(const Floats& got, const Floats& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double gap = 0.0, size = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    gap += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LT(std::sqrt(gap), 1e-5 * std::sqrt(size));
  EXPECT_GT(size, 0.0);
}

}  // namespace athanor::tests
