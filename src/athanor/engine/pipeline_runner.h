// Runs micro-batches through this rank's stages of the model: those of a training step, or held-out ones. Serial is a
// pipeline of one stage on a group of one, whose schedule takes one micro-batch after the other.
//
//   PipelineRunner pipeline(model, {parts, schedule_of, &group, &arena, recompute, token_ranks, trace});
//   pipeline.train({.num_micro_batches = 8, .micro_batch = ..., .on_loss = ..., .after_action = ...});
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

#include "athanor/engine/held_out.h"
#include "athanor/engine/model_stage.h"
#include "athanor/pipeline/execute.h"

namespace athanor::engine {

struct PipelineOptions {
  std::vector<ModelPart> parts;  // one per stage of the whole pipeline
  std::function<Schedule(int micro_batches)> schedule;
  Group* group = nullptr;  // the ranks of the pipeline (pp)
  Arena* arena = nullptr;  // of what stages receive
  RecomputePlan recompute;
  int token_ranks = 1;  // sequence parallelism: ranks that partition the hidden states
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of wait_seconds()
};

// One pass of micro-batches. micro_batch() is asked for the same one by several actions, for the first time in ascending
// order. Every rank passes ids and targets, although only the first stage reads the ids and only the last stage the
// targets.
struct PipelinePass {
  int num_micro_batches = 0;
  std::function<MicroBatch(int micro_batch)> micro_batch;
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
  int64_t num_own_stages() const { return std::ssize(stages_); }
  // Seconds of the current or last pass in which this rank waited for other stages.
  double wait_seconds() const { return runs_ == nullptr ? 0.0 : runs_->wait_seconds(); }

 private:
  void run(PipelinePass pass, bool backward);
  Executor& executor(int micro_batches, bool backward);

  PipelineOptions options_;
  std::vector<std::unique_ptr<ModelStage>> stages_;  // of this rank
  std::map<std::pair<int, bool>, std::unique_ptr<Executor>>
      executors_;      // key: number of micro-batches, with backward
  PipelinePass pass_;  // the current pass
  const Executor* runs_ = nullptr;
};

}  // namespace athanor::engine
