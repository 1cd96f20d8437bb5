// Reverse-mode differentiation: a Tape records the operations of a forward pass and walks them backwards.
//
//   Tape tape(context);                                // context: seed, step, where in the global batch
//   Var x = embedding(tape, ids, table);               // ops/ are functions on Vars
//   Var loss = linear_cross_entropy(rms_norm(x, w, eps), head, targets, ...);
//   tape.backward(loss);                               // gradients are added into each Weight's slot
//
// A node's backward has two parts: the gradient of its inputs, and the gradient of its weights. backward()
// runs both, weights first, so that a finished weight can be reduced while the rest goes on; a pipeline
// schedule may defer the weight parts (DeferredWeights) and run them later. What a node saved is freed as
// soon as its backward has run. Thread rule: a Tape is used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "athanor/autograd/activation_store.h"
#include "athanor/autograd/param.h"
#include "athanor/autograd/redo.h"
#include "athanor/tensor/tensor.h"

namespace athanor {

class Tape;
struct SequencePart;

// A value of the computation; `node` is -1 where no gradient flows (constants, or a tape that does not
// record).
struct Var {
  Tensor value;
  Tape* tape = nullptr;
  int node = -1;
};

// What ops need to know about the pass they are in.
struct PassContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sequence = 0;  // index in the step's global batch of the first sequence in this pass (law 2)
  int64_t num_sequences = 0, seq_len = 0;  // of this pass; layouts that deal out its tokens need them
  const SequencePart* part = nullptr;      // of its sequences that this pass has; null: all (sequence_part.h)
  // [num_sequences, whole length] i32: the position where each token's document begins, before which it attends to
  // nothing. Undefined: sequences are one document.
  Tensor document_starts = {};
  bool record = false;                     // gradients will be asked for
  bool dropout = false;                    // drop as in training
  float loss_scale = 1.0f;                 // gradients are this many times larger (f16)
  ActivationStore* activations = nullptr;  // where those of blocks go meanwhile; null: they stay
};

// Called with a weight whose gradient slot a backward pass has completed.
using WeightReady = std::function<void(Weight&)>;

class Node {
 public:
  virtual ~Node() = default;
  // Called once, before either part: the gradient as both of them take it.
  virtual Tensor begin_backward(Tensor dy) { return dy; }
  virtual std::vector<Tensor> backward_input(const Tensor& dy) = 0;  // one per input, in order
  virtual void backward_weight(const Tensor& dy, const WeightReady& ready) = 0;
  virtual bool has_weights() const = 0;
  // Some operations can add the gradient of their only input to `base` while they make it: a new tensor, with the bits
  // of an addition afterwards.
  virtual bool adds() const { return false; }
  virtual Tensor backward_input_onto(const Tensor& dy, const Tensor& base);
  // Both parts, the weights first or in one pass.
  virtual std::vector<Tensor> backward(const Tensor& dy, const WeightReady& ready) {
    backward_weight(dy, ready);
    return backward_input(dy);
  }
  virtual Tensor backward_onto(const Tensor& dy, const Tensor& base, const WeightReady& ready) {
    backward_weight(dy, ready);
    return backward_input_onto(dy, base);
  }

  std::vector<int> inputs;                         // nodes of the tape, -1 for constants
  std::vector<std::shared_ptr<Restorable>> redos;  // of values that backward reads
};

// Weight parts put off by backward(): run() does them in the order they were met.
class DeferredWeights {
 public:
  void run(const WeightReady& ready);
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
    if (watched_ != nullptr) watched_->watch(nullptr);  // a block that failed half way
  }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const PassContext& context() const { return context_; }
  bool recording() const { return context_.record; }

  Var leaf(Tensor value);  // an input whose gradient is kept: read it with grad()
  Var constant(Tensor value) { return {std::move(value), this, -1}; }
  Var record(Tensor value, std::shared_ptr<Node> node);

  // From `root` down. `dy` is the gradient of root's value; undefined for a loss, which knows its own. With
  // `deferred`, weight parts are put there instead of being run.
  void backward(const Var& root, Tensor dy = {}, DeferredWeights* deferred = nullptr);
  const Tensor& grad(const Var& leaf) const;

  // Between these two, values that are cheap to redo are noted, and at the end forgotten, all but `result`. Their
  // last use in the forward pass must lie between as well.
  void begin_redo() { redoing_ = true; }
  void end_redo(const Var& result);
  bool redoing() const { return redoing_; }
  void note_redo(std::shared_ptr<Redo> redo) { redos_.push_back(std::move(redo)); }
  std::shared_ptr<Redo> redo_of(const Tensor& value) const;  // null: none was noted

  // Between these two a block of the model computes y of x; where the context has a store, what it leaves behind goes
  // there, but for y. Nothing without one.
  void begin_block(const Var& x);
  void end_block(const Var& y);

  // Called after each weight part with every weight it completed.
  void on_weight_ready(WeightReady ready) { weight_ready_ = std::move(ready); }

 private:
  void accumulate(int node, Tensor dx);

  PassContext context_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<Tensor> grads_;
  bool redoing_ = false;
  std::vector<std::shared_ptr<Redo>> redos_;  // since begin_redo()
  // Since begin_block(): the first node, and what was allocated, the block's input first.
  size_t block_first_ = 0;
  std::vector<std::weak_ptr<Storage>> block_storages_;
  Arena* watched_ = nullptr;
  WeightReady weight_ready_;
};

}  // namespace athanor
