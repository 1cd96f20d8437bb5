#include "athanor/pipeline/tape_stage.h"

namespace athanor::pipeline {

TapeStage::Pass& TapeStage::find(int micro_batch, const char* what) {
  const auto found = passes_.find(micro_batch);
  check(found != passes_.end(), "stage: got {} of micro-batch {}, whose forward was not run", what,
        micro_batch);
  return found->second;
}

Tensor TapeStage::forward(int micro_batch, const Tensor& x) {
  const auto [entry, is_new] = passes_.try_emplace(micro_batch);
  check(is_new, "stage: got the forward of micro-batch {} a second time", micro_batch);
  Pass& pass = entry->second;
  PassContext numbered = context(micro_batch);
  numbered.micro_batch = micro_batch;
  pass.tape = std::make_unique<Tape>(std::move(numbered));
  pass.x = x.defined() ? pass.tape->leaf(x) : Var{{}, pass.tape.get(), -1};
  pass.y = compute(*pass.tape, micro_batch, pass.x);
  const Tensor y = std::move(pass.y.value);
  pass.x.value = pass.y.value = {};
  if (!pass.tape->recording()) passes_.erase(entry);
  return is_last_ ? Tensor{} : y;
}

Tensor TapeStage::run_backward(Pass& pass, const Tensor& dy, DeferredWeights* deferred) const {
  check(dy.defined() != is_last_, "stage: got {} gradient of the output, expected {}",
        dy.defined() ? "a" : "no", is_last_ ? "none: the loss knows its own" : "one");
  pass.tape->backward(pass.y, dy, deferred);
  return pass.x.node >= 0 ? pass.tape->grad(pass.x) : Tensor{};
}

Tensor TapeStage::backward(int micro_batch, const Tensor& dy) {
  Pass& pass = find(micro_batch, "the backward");
  Tensor dx = run_backward(pass, dy, nullptr);
  passes_.erase(micro_batch);
  return dx;
}

Tensor TapeStage::backward_input(int micro_batch, const Tensor& dy) {
  Pass& pass = find(micro_batch, "the input gradient");
  check(pass.tape != nullptr, "stage: got the input gradient of micro-batch {} a second time", micro_batch);
  Tensor dx = run_backward(pass, dy, &pass.deferred);
  pass.tape.reset();
  return dx;
}

void TapeStage::backward_weight(int micro_batch) {
  Pass& pass = find(micro_batch, "the weight gradient");
  check(pass.tape == nullptr, "stage: got the weight gradient of micro-batch {} before its input gradient",
        micro_batch);
  pass.deferred.run(micro_batch);
  passes_.erase(micro_batch);
}

}  // namespace athanor::pipeline
