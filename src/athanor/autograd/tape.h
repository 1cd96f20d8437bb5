// Reverse-mode automatic differentiation: a Tape records the operations of a forward pass and runs their backward in
// reverse order.
//
//   Tape tape(context);                                // context: seed, step, place in the global batch
//   Var x = embedding(tape, ids, table, nullptr, 0);   // ops/ are functions on Vars
//   Var loss = linear_cross_entropy(rms_norm(x, w, eps), head, /*bias=*/nullptr, targets, classes);
//   tape.backward(loss);                               // gradients are added into each Weight's slot
//
// A node's backward has two parts: the gradient of its inputs, and the gradient of its weights. backward() runs both,
// weights first, so that a finished gradient (Weight::grad_ready) can be reduced while the rest goes on. A pipeline
// schedule may defer the weight part (DeferredWeights) and run it later (zero bubble). The tensors that a node saved are freed as soon as its
// backward has run. Errors: Error for a root that was not recorded. Thread rule: a Tape is used by one thread.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "athanor/autograd/activation_store.h"
#include "athanor/autograd/param.h"
#include "athanor/autograd/pass_context.h"
#include "athanor/autograd/selective_recompute.h"
#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

class Tape;

// A value of the computation. `node` is -1 where no gradient flows (a constant, or a tape that does not record).
struct Var {
  Tensor value;
  Tape* tape = nullptr;
  int node = -1;
};

class Node {
 public:
  virtual ~Node() = default;
  // Called once, before either part. Returns the gradient that both parts get.
  virtual Tensor begin_backward(Tensor dy) { return dy; }
  virtual std::vector<Tensor> backward_input(const Tensor& dy) = 0;  // one per input, in order
  // Adds the gradients of the weights, then tells each weight that it has that of `micro_batch`.
  virtual void backward_weight(const Tensor& dy, int64_t micro_batch) = 0;
  virtual bool has_weights() const = 0;
  // Whether backward_input_onto() exists: for operations with one input that can add its gradient to `base` in the same
  // pass. The result is a new tensor with the bits of a separate addition.
  virtual bool adds() const { return false; }
  virtual Tensor backward_input_onto(const Tensor& dy, const Tensor& base);
  // Both parts: weights first, or in one pass.
  virtual std::vector<Tensor> backward(const Tensor& dy, int64_t micro_batch) {
    backward_weight(dy, micro_batch);
    return backward_input(dy);
  }
  virtual Tensor backward_onto(const Tensor& dy, const Tensor& base, int64_t micro_batch) {
    backward_weight(dy, micro_batch);
    return backward_input_onto(dy, base);
  }

  std::vector<int> inputs;                               // nodes of the tape, -1 for constants
  std::vector<std::shared_ptr<Restorable>> restorables;  // values to restore before backward
};

// Weight parts that backward() has deferred. run() does them in the order in which backward() met them.
class DeferredWeights {
 public:
  void run(int64_t micro_batch);
  bool empty() const { return parts_.empty(); }

 private:
  friend class Tape;
  struct Part {
    std::shared_ptr<Node> node;
    Tensor dy;
  };
  std::vector<Part> parts_;
};

class Tape {
 public:
  explicit Tape(PassContext context) : context_(std::move(context)) {}
  ~Tape() {
    if (watched_ != nullptr) watched_->watch(nullptr);  // after an exception inside a block
  }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const PassContext& context() const { return context_; }
  bool recording() const { return context_.record; }

  Var leaf(Tensor value);  // an input whose gradient is kept: read it with grad()
  Var constant(Tensor value) { return {std::move(value), this, -1}; }
  Var record(Tensor value, std::shared_ptr<Node> node);

  // Backward pass from `root`. `dy`: the gradient of root's value; undefined for a loss, which computes its own. With
  // `deferred`, weight parts are collected there instead of being run.
  void backward(const Var& root, Tensor dy = {}, DeferredWeights* deferred = nullptr);
  // The same from several roots, each with its gradient. A root may be a leaf, or be used by operations before another
  // root: its gradient is the sum, what is given here first.
  void backward(std::span<const Var> roots, std::vector<Tensor> dys, DeferredWeights* deferred = nullptr);
  const Tensor& grad(const Var& leaf) const;

  // Selective recompute of the operations between these two: end_selective_recompute() frees the values that are cheap
  // to recompute, except `result`. All forward uses of these values must come before it.
  void begin_selective_recompute() { recomputing_ = true; }
  void end_selective_recompute(const Var& result);
  bool recomputing() const { return recomputing_; }
  void note_recomputed(std::shared_ptr<RecomputedValue> recomputed) {
    recomputed_.push_back(std::move(recomputed));
  }
  std::shared_ptr<RecomputedValue> find_recomputed(const Tensor& value) const;  // null: none

  // Activation offload: called around a block that computes y from x. end_block() moves the block's activations, except
  // y, to context().activations. Both do nothing without a store.
  void begin_block(const Var& x);
  void end_block(const Var& y);

 private:
  void accumulate(int node, Tensor dx);

  PassContext context_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<Tensor> grads_;
  bool recomputing_ = false;
  std::vector<std::shared_ptr<RecomputedValue>> recomputed_;  // since begin_selective_recompute()
  // Since begin_block(): the first node, and the storages allocated (the block's input first).
  size_t block_first_ = 0;
  std::vector<std::weak_ptr<Storage>> block_storages_;
  Arena* watched_ = nullptr;
};

}  // namespace athanor::autograd
