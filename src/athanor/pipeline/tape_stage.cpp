#include "athanor/pipeline/tape_stage.h"

#include <string>
#include <utility>

namespace athanor::pipeline {

TapeStage::Pass& TapeStage::find(int micro_batch, const char* what) {
  const auto found = passes_.find(micro_batch);
  check(found != passes_.end(), "stage: got {} of micro-batch {}, whose forward was not run", what,
        micro_batch);
  return found->second;
}

std::vector<Tensor> TapeStage::forward(int micro_batch, const std::vector<Tensor>& x) {
  const auto [entry, is_new] = passes_.try_emplace(micro_batch);
  check(is_new, "stage: got the forward of micro-batch {} a second time", micro_batch);
  Pass& pass = entry->second;
  PassContext numbered = context(micro_batch);
  numbered.micro_batch = micro_batch;
  pass.tape = std::make_unique<Tape>(std::move(numbered));
  for (const Tensor& each : x) pass.x.push_back(pass.tape->leaf(each));
  pass.y = compute(*pass.tape, micro_batch, pass.x);
  std::vector<Tensor> y;
  for (Var& each : pass.x) each.value = {};
  for (Var& each : pass.y) y.push_back(std::exchange(each.value, {}));
  if (!pass.tape->recording()) passes_.erase(entry);
  if (is_last_) y.clear();
  return y;
}

std::vector<Tensor> TapeStage::run_backward(Pass& pass, std::vector<Tensor> dy,
                                            DeferredWeights* deferred) const {
  check(dy.size() == (is_last_ ? 0 : pass.y.size()), "stage: got {} gradients of the output, expected {}",
        dy.size(), is_last_ ? "none: the loss knows its own" : std::to_string(pass.y.size()));
  if (is_last_) dy.emplace_back();
  pass.tape->backward(pass.y, std::move(dy), deferred);
  std::vector<Tensor> dx;
  for (const Var& x : pass.x) dx.push_back(pass.tape->grad(x));
  return dx;
}

std::vector<Tensor> TapeStage::backward(int micro_batch, const std::vector<Tensor>& dy) {
  Pass& pass = find(micro_batch, "the backward");
  std::vector<Tensor> dx = run_backward(pass, dy, nullptr);
  passes_.erase(micro_batch);
  return dx;
}

std::vector<Tensor> TapeStage::backward_input(int micro_batch, const std::vector<Tensor>& dy) {
  Pass& pass = find(micro_batch, "the input gradient");
  check(pass.tape != nullptr, "stage: got the input gradient of micro-batch {} a second time", micro_batch);
  std::vector<Tensor> dx = run_backward(pass, dy, &pass.deferred);
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
