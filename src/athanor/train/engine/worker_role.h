// The role of a worker of parameter servers: it pushes its gradients and pulls the parameters, and has no optimizer. See
// role.h and parallel/parameter_server/worker.h.
//
//   WorkerRole role(declared);
//
// Errors: those of ServerClient. Thread rule: one thread.
#pragma once

#include "athanor/train/engine/role.h"
#include "athanor/train/engine/worker_step.h"

namespace athanor::train::engine {

class WorkerRole final : public Role {
 public:
  explicit WorkerRole(const Declared& declared);

  bool keeps(const ParamSpec& param) const override { return param.is_state(); }  // buffers only
  void publish(const TrainState&) override { client_->start(); }
  void settle() override { client_->settle(); }
  StepResult step(TrainState& state, const std::function<const Batch&()>& next_batch) override {
    return runner_->run(state, next_batch);
  }
  Gradients* gradients() override { return client_.get(); }
  PipelineRunner* pipeline() override { return pipeline_.get(); }
  std::vector<ExchangeState> exchange_states() const override { return client_->exchange_states(); }

 private:
  std::unique_ptr<ServerClient> client_;
  std::unique_ptr<PipelineRunner> pipeline_;
  std::unique_ptr<WorkerStep> runner_;
};

}  // namespace athanor::train::engine
