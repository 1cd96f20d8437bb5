// apply<Op>(args...): runs an operation and records it. An Op is a plain struct:
//
//   struct Op {
//     struct Saved { ... };                                         // all that backward needs, nothing else
//     static Tensor forward(Saved&, const PassContext&, const Tensor& x, Weight& w, float eps);
//     static std::array<Tensor, 1> backward_input(const Saved&, const Tensor& dy);  // one per Var argument
//     static void backward_weight(const Saved&, const Tensor& dy);  // adds into the weights' slots; may be absent
//     static Tensor backward_input_onto(const Saved&, const Tensor& dy, const Tensor& base);  // Node's; may be absent
//     static Tensor backward(const Saved&, const Tensor& dy, const Tensor* base);  // both in one pass; may be absent
//     static Tensor begin_backward(const Saved&, Tensor dy);                               // Node's; may be absent
//     static constexpr bool kCheapToRedo = true;  // forward is cheap for the memory it fills; may be absent
//   };
//
// A Var argument reaches forward as its Tensor, a Weight& or Weight* (null: not there) as itself; anything
// else is passed on. Used by ops/ only.
#pragma once

#include <array>
#include <functional>
#include <tuple>
#include <type_traits>

#include "athanor/autograd/tape.h"

namespace athanor {

namespace detail {

template <typename Op>
class OpNode : public Node {
 public:
  Tensor begin_backward(Tensor dy) override {
    if constexpr (requires { Op::begin_backward(saved, dy); })
      return Op::begin_backward(saved, std::move(dy));
    return dy;
  }
  std::vector<Tensor> backward_input(const Tensor& dy) override {
    auto grads = Op::backward_input(saved, dy);
    return {std::make_move_iterator(grads.begin()), std::make_move_iterator(grads.end())};
  }
  void backward_weight(const Tensor& dy, const WeightReady& ready) override {
    if constexpr (requires { Op::backward_weight(saved, dy); }) Op::backward_weight(saved, dy);
    say_ready(ready);
  }
  bool has_weights() const override { return !weights.empty(); }
  bool adds() const override {
    return requires(const Tensor& x) {
      Op::backward_input_onto(saved, x, x);
    };
  }
  Tensor backward_input_onto(const Tensor& dy, const Tensor& base) override {
    if constexpr (requires { Op::backward_input_onto(saved, dy, base); })
      return Op::backward_input_onto(saved, dy, base);
    return Node::backward_input_onto(dy, base);
  }
  std::vector<Tensor> backward(const Tensor& dy, const WeightReady& ready) override {
    if constexpr (kInOnePass)
      return {in_one_pass(dy, nullptr, ready)};
    else
      return Node::backward(dy, ready);
  }
  Tensor backward_onto(const Tensor& dy, const Tensor& base, const WeightReady& ready) override {
    if constexpr (kInOnePass)
      return in_one_pass(dy, &base, ready);
    else
      return Node::backward_onto(dy, base, ready);
  }

  typename Op::Saved saved;
  std::vector<Weight*> weights;

 private:
  static constexpr bool kInOnePass = requires(const typename Op::Saved& kept, const Tensor& x) {
    Op::backward(kept, x, &x);
  };
  Tensor in_one_pass(const Tensor& dy, const Tensor* base, const WeightReady& ready) {
    Tensor dx = Op::backward(saved, dy, base);
    say_ready(ready);
    return dx;
  }
  void say_ready(const WeightReady& ready) {
    if (ready)
      for (Weight* weight : weights) ready(*weight);
  }
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

// An argument as forward() takes it, for later.
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
void note_redo_of(Tape& tape, Node& node, const T& argument) {
  if constexpr (std::is_same_v<T, Var>)
    if (auto redo = tape.redo_of(argument.value)) node.redos.push_back(std::move(redo));
}

// The node reads the values of its arguments and perhaps its own result: those that will be forgotten by then.
template <typename Op, typename... Args>
void note_redos(Tape& tape, OpNode<Op>& node, const Tensor& value, Args&... args) {
  (note_redo_of(tape, node, args), ...);
  if constexpr (requires { requires Op::kCheapToRedo; }) {
    PassContext quiet = tape.context();
    quiet.record = false;
    auto make = [quiet, kept = std::make_tuple(keep(args)...)] {
      typename Op::Saved saved;
      return std::apply([&](auto&&... arg) { return Op::forward(saved, quiet, arg...); }, kept);
    };
    auto redo = std::make_shared<Redo>(value, std::move(make), node.redos);
    tape.note_redo(redo);
    node.redos.push_back(std::move(redo));
  }
}

}  // namespace detail

template <typename Op, typename... Args>
Var apply(Tape& tape, Args&&... args) {
  auto node = std::make_shared<detail::OpNode<Op>>();
  Tensor value = Op::forward(node->saved, tape.context(), detail::unwrap(args)...);
  if (!tape.recording()) return tape.constant(std::move(value));
  bool needed = false;  // no gradient flows where neither an input nor a weight wants one
  ((needed = detail::note(*node, args) || needed), ...);
  if (!needed) return tape.constant(std::move(value));
  if (tape.redoing()) detail::note_redos<Op>(tape, *node, value, args...);
  return tape.record(std::move(value), std::move(node));
}

}  // namespace athanor
