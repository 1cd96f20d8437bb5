// The role of a worker of parameter servers: it pushes its gradients and pulls the parameters, and has no optimizer. See
// role.h and parallel/parameter_server/worker.h.
//
//   WorkerRole role(declared);
//   role.publish(state);                                // pulls the first parameters
//   StepResult result = role.step(state, next_batch, /*may_repeat=*/false);
//
// A step is forward, loss and backward of its micro-batches, push of the gradients, update by the servers, pull of the
// parameters. The reported losses cover all pushes that the servers received since this worker's last pull, so every
// token is counted once. With consistency "sync" that is the whole step, with the bits of StepRunner. A step after which
// all workers wait for each other (is_commit) leaves the run in one common state, which the servers can save. Errors:
// those of ServerClient. Thread rule: one thread.
#pragma once

#include "athanor/engine/role.h"
#include "athanor/parallel/parameter_server/worker.h"

namespace athanor::engine {

class WorkerRole final : public Role {
 public:
  explicit WorkerRole(const Declared& declared);

  bool keeps(const ParamSpec& param) const override { return param.is_state(); }  // buffers only
  void publish(const TrainState&) override { client_->start(); }
  void settle() override { client_->settle(); }
  StepResult step(TrainState& state, const std::function<const Batch&()>& next_batch,
                  bool may_repeat) override;
  Gradients* gradients() override { return client_.get(); }
  PipelineRunner* pipeline() override { return pipeline_.get(); }
  std::vector<ExchangeState> exchange_states() const override { return client_->exchange_states(); }

 private:
  const Declared& declared_;
  std::unique_ptr<ServerClient> client_;
  std::unique_ptr<PipelineRunner> pipeline_;
  std::optional<MicroBatchPasses> passes_;
  int64_t stop_step_ = 0;  // the step after which all workers stop, told by the servers; 0: none so far
};

}  // namespace athanor::engine
