// apply<Op>(args...): runs an operation and records it on the tape, as torch.autograd.Function does. An Op:
//
//   struct Op {
//     struct Saved { ... };                                         // all that backward needs, nothing else
//     static Tensor forward(Saved&, const PassContext&, const Tensor& x, Weight& w, float eps);
//     static std::array<Tensor, 1> backward_input(const Saved&, const Tensor& dy);  // one per Var; optional below:
//     static void backward_weight(const Saved&, const Tensor& dy);  // adds into the weights' gradient slots
//     static Tensor backward_input_onto(const Saved&, const Tensor& dy, const Tensor& base);  // see Node
//     static Tensor backward(const Saved&, const Tensor& dy, const Tensor* base);  // both parts in one pass
//     static Tensor begin_backward(const Saved&, Tensor dy);                               // see Node
//     static constexpr bool kCheapToRecompute = true;  // selective recompute: forward is cheap for its memory
//     static constexpr bool kGradInForward = true;  // forward adds the weights' gradients; the caller tells the weights
//   };
//
// forward gets a Var argument as its Tensor, a Weight& or Weight* (null: no such weight) as itself, anything else
// unchanged. Used by ops/ only. Thread rule: that of the Tape.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "athanor/autograd/op_node.h"
#include "athanor/autograd/tape.h"

namespace athanor::autograd {

namespace detail {

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

// Registers one argument of apply() with the node: as an input, a weight, or neither. True: it needs a gradient.
template <typename Op>
bool note(OpNode<Op>& node, const Var& argument) {
  node.inputs.push_back(argument.node);
  return argument.node >= 0;
}
template <typename Op>
bool note(OpNode<Op>& node, Weight& argument) {
  if constexpr (!requires { requires Op::kGradInForward; }) node.weights.push_back(&argument);
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

// Stores an argument so that forward() can be called again later.
template <typename T>
T keep(const T& argument) {
  return argument;
}
inline Tensor keep(const Var& argument) {
  return argument.value;
}
inline std::reference_wrapper<Weight> keep(Weight& argument) {
  return argument;
}
inline Weight* keep(Weight* argument) {
  return argument;
}

template <typename T>
void note_recomputed_input(Tape& tape, Node& node, const T& argument) {
  if constexpr (std::is_same_v<T, Var>)
    if (auto input = tape.find_recomputed(argument.value)) node.restorables.push_back(std::move(input));
}

// Selective recompute: notes which of its arguments, and its own result, the node's backward must recompute first.
template <typename Op, typename... Args>
void note_recompute(Tape& tape, OpNode<Op>& node, const Tensor& value, Args&... args) {
  (note_recomputed_input(tape, node, args), ...);
  if constexpr (requires { requires Op::kCheapToRecompute; }) {
    PassContext quiet = tape.context();
    quiet.record = false;
    auto make = [quiet, kept = std::make_tuple(keep(args)...)] {
      typename Op::Saved saved;
      return std::apply([&](auto&&... arg) { return Op::forward(saved, quiet, arg...); }, kept);
    };
    auto recomputed = std::make_shared<RecomputedValue>(value, std::move(make), node.restorables);
    tape.note_recomputed(recomputed);
    node.restorables.push_back(std::move(recomputed));
  }
}

}  // namespace detail

template <typename Op, typename... Args>
Var apply(Tape& tape, Args&&... args) {
  tape.context().look_up();
  auto node = std::make_shared<detail::OpNode<Op>>();
  Tensor value = Op::forward(node->saved, tape.context(), detail::unwrap(args)...);
  if (!tape.recording()) return tape.constant(std::move(value));
  bool needed = false;  // whether any input or weight needs a gradient
  ((needed = detail::note(*node, args) || needed), ...);
  if (!needed) return tape.constant(std::move(value));
  if (tape.recomputing()) detail::note_recompute<Op>(tape, *node, value, args...);
  return tape.record(std::move(value), std::move(node));
}

}  // namespace athanor::autograd
