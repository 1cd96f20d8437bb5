#include "athanor/autograd/recompute.h"

namespace athanor::autograd {
namespace {

class RecomputeNode : public Node {
 public:
  RecomputeNode(const Var& x, std::function<Var(const Var&)> block)
      : block_(std::move(block)), x_(x.value), context_(x.tape->context()) {
    inputs = {x.node};
  }
  bool has_weights() const override { return true; }

  std::vector<Tensor> backward(const Tensor& dy, int64_t /*micro_batch*/) override {
    Tape inner(context_);
    return {run(inner, dy, nullptr)};
  }
  // With backward split in two, the second run's tape is kept until backward_weight().
  std::vector<Tensor> backward_input(const Tensor& dy) override {
    inner_ = std::make_unique<Tape>(context_);
    return {run(*inner_, dy, &deferred_)};
  }
  void backward_weight(const Tensor&, int64_t micro_batch) override { deferred_.run(micro_batch); }

 private:
  Tensor run(Tape& inner, const Tensor& dy, DeferredWeights* deferred) {
    const Var x = inner.leaf(std::move(x_));
    const Var y = block_(x);
    inner.backward(y, dy, deferred);
    return inner.grad(x);
  }

  std::function<Var(const Var&)> block_;
  Tensor x_;
  PassContext context_;
  std::unique_ptr<Tape> inner_;
  DeferredWeights deferred_;
};

}  // namespace

Var recompute(const Var& x, std::function<Var(const Var&)> block) {
  if (!x.tape->recording()) return block(x);
  PassContext quiet = x.tape->context();
  quiet.record = false;
  Tape forward_only(quiet);
  const Var y = block(forward_only.constant(x.value));
  return x.tape->record(y.value, std::make_shared<RecomputeNode>(x, std::move(block)));
}

}  // namespace athanor::autograd
