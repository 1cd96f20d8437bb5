// A training step of a worker of parameter servers (parallel/parameter_server/worker.h): forward, loss and backward of
// its micro-batches, push of the gradients, update by the servers, pull of the parameters.
//
//   WorkerStep step(model, servers, pipeline, workers, arena, options);
//   StepResult result = step.run(state, [&]() -> const Batch& { return loader.next(); });
//
// The reported losses cover all pushes that the servers received since this worker's last pull, so every token is
// counted once. With consistency "sync" that is the whole step, with the bits of StepRunner. A step after which all
// workers wait for each other (`commits`) leaves the run in one common state, which the servers can save. Errors: those
// of ServerClient. Thread rule: one thread.
#pragma once

#include "athanor/parallel/parameter_server/worker.h"
#include "athanor/train/engine/step.h"

namespace athanor::train::engine {

struct WorkerOptions {
  LrSchedule schedule;  // what the servers go by
  double max_grad_norm = 1.0;
  int64_t num_channels = 1;
  std::function<bool(int64_t step)> commits;  // whether a global barrier follows the step (is_commit)
  const std::atomic<int>* stop = nullptr;
  bool is_sync = true;  // all workers push each step before any goes on
  PassOptions pass;
};

class WorkerStep final : public Steps {
 public:
  // `workers`: all workers (dp x cp).
  WorkerStep(const Model& model, ServerClient& servers, PipelineRunner& pipeline, Group& workers,
             Arena& arena, WorkerOptions options)
      : model_(model),
        servers_(servers),
        workers_(workers),
        arena_(arena),
        options_(std::move(options)),
        passes_(model, servers, pipeline, arena, options_.pass) {}

  StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch) override;

 private:
  const Model& model_;
  ServerClient& servers_;
  Group& workers_;
  Arena& arena_;
  WorkerOptions options_;
  MicroBatchPasses passes_;
  int64_t stop_step_ = 0;  // the step after which all workers stop, told by the servers; 0: none so far
};

}  // namespace athanor::train::engine
