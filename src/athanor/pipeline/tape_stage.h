// A pipeline stage that computes on Tapes, one per micro-batch. A subclass only says what it computes.
//
//   class Half : public TapeStage {
//     PassContext context(int micro_batch) override { return {.record = true}; }
//     std::vector<Var> compute(Tape&, int, const std::vector<Var>& x) override {
//       return {linear(x[0], weight_, nullptr)};
//     }
//     ...
//   };
//
// backward_input() leaves the weight parts of the tape for later (DeferredWeights); they keep the tensors that they
// need, everything else is freed. A pass that does not record keeps nothing. Gradients of weights are added in the
// order of the calls of backward() and backward_weight(); those of the loss's head in the order of forward(). Thread
// rule: as Stage.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/pipeline/stage.h"

namespace athanor::pipeline {

class TapeStage : public Stage {
 public:
  // `is_last`: compute() returns one loss, which computes its own gradient and is not sent on.
  explicit TapeStage(bool is_last) : is_last_(is_last) {}

  std::vector<Tensor> forward(int micro_batch, const std::vector<Tensor>& x) override;
  std::vector<Tensor> backward(int micro_batch, const std::vector<Tensor>& dy) override;
  std::vector<Tensor> backward_input(int micro_batch, const std::vector<Tensor>& dy) override;
  void backward_weight(int micro_batch) override;

  void forget() { passes_.clear(); }  // drops what is kept for all micro-batches
  // The number of micro-batches for which something is kept.
  int num_held() const { return static_cast<int>(passes_.size()); }

 protected:
  virtual PassContext context(int micro_batch) = 0;
  // x and result: one Var per tensor of inputs() and outputs(). A Var of x may be a result: it passes the stage
  // unchanged.
  virtual std::vector<Var> compute(Tape& tape, int micro_batch, const std::vector<Var>& x) = 0;

 private:
  // State of one micro-batch. The values of x and y are not kept: operations save what they need.
  struct Pass {
    std::unique_ptr<Tape> tape;
    std::vector<Var> x, y;
    DeferredWeights deferred;
  };
  Pass& find(int micro_batch, const char* what);
  std::vector<Tensor> run_backward(Pass& pass, std::vector<Tensor> dy, DeferredWeights* deferred) const;

  bool is_last_;
  std::map<int, Pass> passes_;
};

}  // namespace athanor::pipeline
