// Runs micro-batches through this rank's pipeline stages: those of a training step, or held-out ones.
//
//   PipelineRunner pipeline(model, {parts, schedule_of, &group, recompute, token_ranks, trace});
//   pipeline.train({.batches = ..., .on_loss = ..., .after_action = ...});
//   const std::vector<double> sums = pipeline.sum_losses(batches);   // zeros except on the rank of the last stage
//
// `model` has only the parts of this rank (Model::keep). Collective: every rank of the group makes the same calls with
// the same number of micro-batches. Errors: those of Executor. Thread rule: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "athanor/evaluate/perplexity.h"
#include "athanor/pipeline/execute.h"
#include "athanor/train/engine/model_stage.h"

namespace athanor::train::engine {

struct PipelineOptions {
  std::vector<ModelPart> parts;  // one per stage of the whole pipeline
  std::function<Schedule(int micro_batches)> schedule;
  Group* group = nullptr;  // the ranks of the pipeline
  RecomputePlan recompute;
  int token_ranks = 1;  // sequence parallelism: ranks that partition the hidden states
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of wait_seconds()
};

// One pass of micro-batches. Every rank passes all ids and targets, although only the first stage reads the ids and
// only the last stage the targets.
struct PipelinePass {
  std::vector<MicroBatch> batches;
  std::function<void(int micro_batch, const Tensor& loss)> on_loss = {};
  std::function<void(const Action&)> after_action = {};
};

class PipelineRunner {
 public:
  PipelineRunner(const Model& model, PipelineOptions options);

  void train(PipelinePass pass) { run(std::move(pass), true); }
  std::vector<double> sum_losses(std::span<const HeldOutBatch> batches);
  int at_a_time() const { return options_.group->size(); }  // batches that keep all ranks busy

  int64_t num_stages() const { return std::ssize(options_.parts); }
  double wait_seconds() const { return waited_; }  // seconds of the last pass spent waiting for other stages

 private:
  void run(PipelinePass pass, bool backward);
  Executor& executor(int micro_batches, bool backward);

  PipelineOptions options_;
  std::vector<std::unique_ptr<ModelStage>> stages_;  // of this rank
  std::map<std::pair<int, bool>, std::unique_ptr<Executor>>
      executors_;      // key: number of micro-batches, with backward
  PipelinePass pass_;  // the current pass
  double waited_ = 0.0;
};

}  // namespace athanor::train::engine
