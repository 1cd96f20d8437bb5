// A worker's client of the parameter servers: pushes a step's gradients, pulls losses and parameters.
//
//   ServerClient servers(*model, all, workers, settings, arena, trace);   // all: the workers, then the servers
//   ... the parameters get memory: model.allocate() ...
//   servers.allocate();
//   servers.start();                                                          // pulls the first parameters
//   servers.begin_step({.num_micro_batches = 8, .update = 1});
//   ... this worker's micro-batches, as in data/gradients.h ... servers.finish();
//   AnswerHeader answer = servers.exchange({.step = 1, .tokens = 512}, max_grad_norm, losses);
//
// exchange() returns when the servers let this worker go on. `losses` then holds the sums over all pushes since the
// last answer (sync: over the step). Parameters may still be arriving: each is waited for at its first use.
// bounded and async: a push is scaled to the mean over the worker's own tokens and clipped by that mean's norm; with a
// loss scale (f16) a norm that is not finite means that the push was skipped.
// Errors: the group's; Error for a gradient that is not finite. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "athanor/nn/module.h"
#include "athanor/parallel/data/replicated_gradients.h"
#include "athanor/parallel/parameter_server/gradient_push.h"
#include "athanor/parallel/parameter_server/pulled_values.h"

namespace athanor::parallel::parameter_server {

class ServerClient final : public Gradients {
 public:
  ServerClient(const Module& model, Group& world, Group& workers, const ServerSettings& settings,
               Arena& arena, Trace* trace, std::function<double()> clock = now_seconds);
  void allocate();
  void begin_step(const GradientStep& step) override;
  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override {
    return gradients_->micro_batches_of_step(num_micro_batches);
  }
  void finish() override { gradients_->finish(); }
  uint64_t buffer_bytes() const override { return gradients_->buffer_bytes(); }
  double comm_seconds() const override { return clock_.seconds(); }
  std::vector<ExchangeState> exchange_states() const { return push_->exchange_states(); }
  void start();
  // Call on all workers, when the servers expect it (ServerSettings::balance_every).
  void share_micro_batches(std::vector<int64_t> counts) override;
  void settle() { values_.settle(); }  // waits for all parameters
  AnswerHeader exchange(PushHeader push, double max_grad_norm, std::span<double> losses);

 private:
  double scale(PushHeader& push, double max_grad_norm);
  void expect_answers(std::span<double> losses);
  AnswerHeader wait_for_answers();

  const Module& model_;
  Group& world_;
  Group& workers_;
  const ServerSettings settings_;
  Arena& arena_;
  WaitClock clock_;
  Buckets buckets_;
  PulledValues values_;
  std::unique_ptr<GradientPush> push_;  // made by allocate(), as the next
  std::unique_ptr<ReplicatedGradients> gradients_;
  std::vector<Words> answers_;  // by server
  std::vector<double> started_losses_;
  std::vector<Work> works_;
};

}  // namespace athanor::parallel::parameter_server
