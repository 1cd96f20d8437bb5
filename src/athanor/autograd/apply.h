// apply<Op>(args...): runs an operation and records it. An Op is a plain struct:
//
//   struct Op {
//     struct Saved { ... };                                         // all that backward needs, nothing else
//     static Tensor forward(Saved&, const PassContext&, const Tensor& x, Weight& w, float eps);
//     static std::array<Tensor, 1> backward_input(const Saved&, const Tensor& dy);  // one per Var argument
//     static void backward_weight(const Saved&, const Tensor& dy);  // adds into the weights' slots; may be absent
//   };
//
// A Var argument reaches forward as its Tensor, a Weight& or Weight* (null: not there) as itself; anything
// else is passed on. Used by ops/ only.
#pragma once

#include <array>
#include <type_traits>

#include "athanor/autograd/tape.h"

namespace athanor {
namespace detail {

template <typename Op>
class OpNode : public Node {
 public:
  std::vector<Tensor> backward_input(const Tensor& dy) override {
    auto grads = Op::backward_input(saved, dy);
    return {std::make_move_iterator(grads.begin()), std::make_move_iterator(grads.end())};
  }
  void backward_weight(const Tensor& dy, const WeightReady& ready) override {
    if constexpr (requires { Op::backward_weight(saved, dy); }) Op::backward_weight(saved, dy);
    if (ready)
      for (Weight* weight : weights) ready(*weight);
  }
  bool has_weights() const override { return !weights.empty(); }

  typename Op::Saved saved;
  std::vector<Weight*> weights;
};

template <typename T>
const T& unwrap(const T& argument) {
  return argument;
}
inline const Tensor& unwrap(const Var& argument) {
  return argument.value;
}
inline Weight& unwrap(Weight& argument) {
  return argument;
}
inline Weight* unwrap(Weight* argument) {
  return argument;
}

// What one argument of apply() brings: an input of the node, a weight, or neither. Returns whether a gradient
// is wanted on its account.
template <typename Op>
bool note(OpNode<Op>& node, const Var& argument) {
  node.inputs.push_back(argument.node);
  return argument.node >= 0;
}
template <typename Op>
bool note(OpNode<Op>& node, Weight& argument) {
  node.weights.push_back(&argument);
  return true;
}
template <typename Op>
bool note(OpNode<Op>& node, Weight* argument) {
  return argument != nullptr && note(node, *argument);
}
template <typename Op, typename T>
bool note(OpNode<Op>&, const T&) {
  return false;
}

}  // namespace detail

template <typename Op, typename... Args>
Var apply(Tape& tape, Args&&... args) {
  auto node = std::make_shared<detail::OpNode<Op>>();
  Tensor value = Op::forward(node->saved, tape.context(), detail::unwrap(args)...);
  if (!tape.recording()) return tape.constant(std::move(value));
  bool needed = false;  // no gradient flows where neither an input nor a weight wants one
  ((needed = detail::note(*node, args) || needed), ...);
  return needed ? tape.record(std::move(value), std::move(node)) : tape.constant(std::move(value));
}

}  // namespace athanor
