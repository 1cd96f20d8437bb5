// What a parameter's values are before the first step: zeros, ones, or normal with mean 0 (initialize() draws them).
//
//   Param weight("head.weight", {V, C}, Init::normal(0.02));
//
// Thread rule: plain data.
#pragma once

#include "athanor/base/namespaces.h"

namespace athanor::autograd {

struct Init {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  float std = 0.0f;
  friend bool operator==(const Init&, const Init&) = default;
  static Init zeros() { return {}; }
  static Init ones() { return {Kind::ones, 0.0f}; }
  static Init normal(double std) { return {Kind::normal, static_cast<float>(std)}; }
};

}  // namespace athanor::autograd
