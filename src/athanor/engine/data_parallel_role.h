// The role of a rank without parameter servers: it sums gradients with the other ranks and updates its share of the
// parameters (data parallelism, ZeRO, hybrid sharding, local SGD). See role.h.
//
//   DataParallelRole role(declared, env, host);
//   role.parallel().grad(param);   // after a step
//
// Errors: those of DataParallel, OuterSync and StepRunner. Thread rule: one thread.
#pragma once

#include "athanor/engine/role.h"
#include "athanor/parallel/compression/onebit_adam.h"

namespace athanor::engine {

class DataParallelRole final : public Role {
 public:
  // Offloaded parts lie in files made by `env`, or in `host` (null: none does).
  DataParallelRole(const Declared& declared, Env& env, HostMemory* host);

  DataParallel& parallel() { return *parallel_; }
  Optimizer& optimizer() { return *optimizer_; }

  bool keeps(const ParamSpec&) const override { return true; }
  void publish(const TrainState& state) override;
  void settle() override { parallel_->settle(); }
  StepResult step(TrainState& state, const std::function<const Batch&()>& next_batch,
                  bool may_repeat) override {
    return runner_->run(state, next_batch, may_repeat);
  }
  bool repeats() const override { return true; }
  bool is_whole() const override { return runner_->is_whole(); }
  Gradients* gradients() override { return parallel_.get(); }
  PipelineRunner* pipeline() override { return pipeline_.get(); }
  OuterSync* outer() override { return outer_.get(); }
  const Tensor* grad(Param& param) override { return &parallel_->grad(param); }
  int64_t summed_micro_batches(int64_t of_step) const override;
  std::vector<Optimizer::State> optimizer_states() const override { return optimizer_->states(); }
  bool updates_out_of_place() const override { return onebit_ == nullptr; }
  std::vector<ExchangeState> exchange_states() const override;

 private:
  void make_optimizer_of(const Declared& declared, Env& env, HostMemory* host);

  std::unique_ptr<Optimizer> optimizer_;
  OneBitAdam* onebit_ = nullptr;  // `optimizer_` if it is 1-bit Adam, else null
  std::unique_ptr<DataParallel> parallel_;
  std::unique_ptr<OuterSync> outer_;              // null: no outer steps
  std::unique_ptr<ActivationStore> activations_;  // null: activations stay in memory
  std::unique_ptr<PipelineRunner> pipeline_;
  std::unique_ptr<StepRunner> runner_;
};

}  // namespace athanor::engine
