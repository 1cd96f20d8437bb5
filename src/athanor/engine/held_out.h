// Passes over held-out text: the losses of some windows, without gradients.
//
//   const HeldOutPasses passes = training.held_out_passes();
//   const std::vector<double> sums = passes.sum_losses(batches);   // nats, of each batch
//
// Thread rule: one thread per model. Errors: those of the model and the groups.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/models/inputs.h"
#include "athanor/tensor/tensor.h"

namespace athanor::engine {

// The windows of one forward pass; all have the same length T.
struct HeldOutBatch {
  ModelInputs inputs;  // [b,T]
  // [b,T] i32, with a document mask (autograd/pass_context.h)
  Tensor document_starts = {}, document_ends = {};
};

// Who computes the losses: the model on this rank, or the stages of a pipeline.
struct HeldOutPasses {
  std::function<std::vector<double>(std::span<const HeldOutBatch>)> sum_losses;  // last stage; others: zeros
  int at_a_time = 1;      // forward passes in one call of sum_losses
  Group* sums = nullptr;  // the group that adds up the results of all ranks; null: that of the evaluation
};

// The sum of the losses [n] f32 of a pass, in f64.
double sum_of_tokens(const Tensor& losses);

}  // namespace athanor::engine
