// A worker's end of parameter servers: pushes a step's gradient, gets losses and parameters back.
//
//   ServerClient servers(*model, all, workers, settings, arena, trace);   // all: the workers, then the servers
//   ... the parameters get memory: model.allocate() ...
//   servers.allocate();
//   servers.start();                                                          // the first parameters are on their way
//   servers.begin_step(1);
//   servers.begin_grain(tape, grain) ... end_grain(), finish();               // as data parallelism: grain_gradients.h
//   AnswerHeader answer = servers.exchange({.step = 1, .tokens = 512}, max_grad_norm, losses);
//
// exchange() returns when the servers let this worker go on, with `losses` replaced by the sums of what was pushed since
// the last answer (in sync: the step's), while parameters still come in: each is waited for at its first use. Bounded
// and asynchronous pushes are scaled to the mean over the worker's own tokens and clipped by the norm of that; where losses
// are scaled (f16), a norm that is not finite says that the push was skipped.
// Errors: the group's; Error for a gradient that is not finite. Thread rule: one thread.
#pragma once

#include <memory>
#include <span>

#include "athanor/nn/module.h"
#include "athanor/parallel/grain_gradients.h"
#include "athanor/parallel/parameter_server/pulled_values.h"
#include "athanor/parallel/parameter_server/pushed_gradients.h"

namespace athanor {

class ServerClient final : public GrainGradients {
 public:
  ServerClient(const Module& model, Group& world, Group& workers, const ServerSettings& settings,
               Arena& arena, Trace* trace);
  void allocate();
  uint64_t gradient_buffer_bytes() const { return gradients_->buffer_bytes(); }  // of one further partial sum
  void begin_step(int64_t step, double loss_scale = 1.0);
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override {
    return gradients_->grains_of_step(num_grains);
  }
  void begin_grain(Tape& tape, int64_t grain) override;
  void end_grain() override { gradients_->end_grain(); }
  void finish() override { gradients_->finish(); }
  double comm_seconds() const override { return clock_.seconds(); }
  std::vector<CompressionState> compression_states() const { return gradients_->compression_states(); }
  void start();
  // From the next step on; where the servers expect it (ServerSettings::balance_every), and on all workers.
  void share_grains(const std::vector<int64_t>& counts);
  void settle() { values_.settle(); }                   // waits for all parameters
  Traffic traffic() const { return world_.traffic(); }  // of this rank
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
  std::unique_ptr<PushedGradients> gradients_;  // from allocate() on
  std::vector<Words> answers_;                  // by server
  std::vector<double> started_losses_;
  std::vector<Work> works_;
};

}  // namespace athanor
