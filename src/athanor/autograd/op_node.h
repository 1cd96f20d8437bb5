// The tape's node of an operation: calls those of an Op's functions that it has (autograd/apply.h lists them). Used by
// apply() only. Thread rule: that of the Tape.
#pragma once

#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "athanor/autograd/tape.h"

namespace athanor::autograd::detail {

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
  void backward_weight(const Tensor& dy, int64_t micro_batch) override {
    if constexpr (requires { Op::backward_weight(saved, dy); }) Op::backward_weight(saved, dy);
    tell_weights(micro_batch);
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
  std::vector<Tensor> backward(const Tensor& dy, int64_t micro_batch) override {
    if constexpr (kInOnePass)
      return {in_one_pass(dy, nullptr, micro_batch)};
    else
      return Node::backward(dy, micro_batch);
  }
  Tensor backward_onto(const Tensor& dy, const Tensor& base, int64_t micro_batch) override {
    if constexpr (kInOnePass)
      return in_one_pass(dy, &base, micro_batch);
    else
      return Node::backward_onto(dy, base, micro_batch);
  }

  typename Op::Saved saved;
  std::vector<Weight*> weights;

 private:
  static constexpr bool kInOnePass = requires(const typename Op::Saved& kept, const Tensor& x) {
    Op::backward(kept, x, &x);
  };
  Tensor in_one_pass(const Tensor& dy, const Tensor* base, int64_t micro_batch) {
    Tensor dx = Op::backward(saved, dy, base);
    tell_weights(micro_batch);
    return dx;
  }
  void tell_weights(int64_t micro_batch) {
    for (Weight* weight : weights) weight->grad_ready(micro_batch);
  }
};

}  // namespace athanor::autograd::detail
