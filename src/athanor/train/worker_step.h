// A training step of a worker of parameter servers (parallel/parameter_server/worker.h): forward, loss and backward over
// its grains, then the gradients go to the servers, who update, and parameters come back.
//
//   WorkerStep step(model, servers, arena, options);
//   StepResult result = step.run(state, [&]() -> const Batch& { return loader.next(); });
//
// Losses are those of all pushes since this worker's last answer: in sync the whole step's, with the bits of StepRunner;
// else of what has come to the servers in between, so that every token is told once. A step after which all wait for all
// (`commits`) leaves the whole run in one state, which servers can save. Thread rule: one thread.
#pragma once

#include "athanor/parallel/parameter_server/worker.h"
#include "athanor/train/step.h"

namespace athanor {

struct WorkerOptions {
  LrSchedule schedule;  // what the servers go by
  double max_grad_norm = 1.0;
  int64_t num_channels = 1;
  std::function<bool(int64_t step)> commits;
  const std::atomic<int>* stop = nullptr;
  bool is_sync = true;  // all workers push each step before any goes on
  PassOptions pass;
};

class WorkerStep final : public Steps {
 public:
  // `workers`: the ranks that share out grains and tokens.
  WorkerStep(const Model& model, ServerClient& servers, Group& workers, Arena& arena, WorkerOptions options)
      : model_(model),
        servers_(servers),
        workers_(workers),
        arena_(arena),
        options_(std::move(options)),
        passes_(model, servers, arena, options_.pass) {}

  StepResult run(TrainState& state, const std::function<const Batch&()>& next_batch) override;

 private:
  const Model& model_;
  ServerClient& servers_;
  Group& workers_;
  Arena& arena_;
  WorkerOptions options_;
  GrainPasses passes_;
  int64_t stop_step_ = 0;  // at which all stop; 0: none was told
};

}  // namespace athanor
