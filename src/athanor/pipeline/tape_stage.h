// A stage that computes on Tapes, one per micro-batch: what is left is to say what it computes.
//
//   class Half : public TapeStage {
//     PassContext context(int micro_batch) override { return {.record = true}; }
//     Var compute(Tape& tape, int, const Var& x) override { return linear(x, weight_, nullptr); }
//     ...
//   };
//
// An input gradient leaves the weight parts of its tape behind (DeferredWeights); they hold what they need,
// the rest is freed. Of a pass that does not record nothing is kept. Gradients of weights are added in the order in which backward() and backward_weight()
// are called, and those of the loss's head in the order of forward(). Thread rule: as Stage.
#pragma once

#include <map>
#include <memory>

#include "athanor/autograd/tape.h"
#include "athanor/pipeline/stage.h"

namespace athanor {

class TapeStage : public Stage {
 public:
  // `is_last`: what compute() gives is a loss, which knows its own gradient and stays here.
  explicit TapeStage(bool is_last) : is_last_(is_last) {}

  Tensor forward(int micro_batch, const Tensor& x) override;
  Tensor backward(int micro_batch, const Tensor& dy) override;
  Tensor backward_input(int micro_batch, const Tensor& dy) override;
  void backward_weight(int micro_batch) override;

  int num_held() const {
    return static_cast<int>(passes_.size());
  }  // micro-batches that something is kept of

 protected:
  virtual PassContext context(int micro_batch) = 0;
  virtual Var compute(Tape& tape, int micro_batch, const Var& x) = 0;  // x: undefined on the first stage
  // Whom to tell of weights whose gradient a micro-batch has completed; nobody by default.
  virtual WeightReady weight_ready(int /*micro_batch*/) { return {}; }

 private:
  // Of a micro-batch. The values of x and y are not kept: operations keep what they need.
  struct Pass {
    std::unique_ptr<Tape> tape;
    Var x, y;
    DeferredWeights deferred;
  };
  Pass& find(int micro_batch, const char* what);
  Tensor run_backward(Pass& pass, const Tensor& dy, DeferredWeights* deferred) const;

  bool is_last_;
  std::map<int, Pass> passes_;
};

}  // namespace athanor
