// A worker's end of parameter servers: pushes a step's gradient, gets losses and parameters back.
//
//   ServerClient servers(*model, {{.ranks = all, .peers = workers, .settings = settings}}, arena, trace);
//   ... the parameters get memory: model.allocate() ...
//   servers.allocate();
//   servers.start();                                                          // the first parameters are on their way
//   servers.begin_step(1);
//   servers.begin_grain(tape, grain) ... end_grain(), finish();               // as data parallelism: grain_gradients.h
//   AnswerHeader answer = servers.exchange({.step = 1, .tokens = 512}, clip_norm, losses);
//
// exchange() returns when the servers let this worker go on, with `losses` replaced by the sums of what was pushed since
// the last answer (in sync: the step's), while parameters still come in: each is waited for at its first use. Bounded
// and asynchronous pushes are scaled to the mean over the worker's own tokens and clipped by the norm of that; where losses
// are scaled (f16), a norm that is not finite says that the push was skipped.
// Errors: the group's; Error for a gradient that is not finite. Thread rule: one thread.
#pragma once

#include <span>

#include "athanor/nn/module.h"
#include "athanor/parallel/experts_apart.h"
#include "athanor/parallel/grain_gradients.h"
#include "athanor/parallel/parameter_server/worker_column.h"

namespace athanor {

class ServerClient final : public GrainGradients {
 public:
  // The columns that this rank works in: one, or that of everything else and that of its experts.
  ServerClient(const Module& model, const std::vector<Column>& columns, Arena& arena, Trace* trace);
  void allocate();
  uint64_t gradient_buffer_bytes() const;  // of one further partial sum
  void begin_step(int64_t step, double loss_scale = 1.0);
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override {
    return column().gradients().grains_of_step(num_grains);
  }
  void begin_grain(Tape& tape, int64_t grain) override;
  void end_grain() override;
  void begin_pass() override;
  void weight_ready(Weight& weight, int64_t grain) override;
  void end_pass() override { end_grain(); }
  void finish() override;
  double comm_seconds() const override { return clock_.seconds(); }
  std::vector<CompressionState> compression_states() const;
  void start();
  // From the next step on; where the servers expect it (ServerSettings::balance_every), and on all workers.
  void share_grains(const std::vector<int64_t>& counts);
  void settle();            // waits for all parameters
  Traffic traffic() const;  // of this rank, in all columns
  AnswerHeader exchange(PushHeader push, double clip_norm, std::span<double> losses);

 private:
  WorkerColumn& column() const { return *columns_.front(); }  // whose servers answer
  WorkerColumn* experts() const { return columns_.size() > 1 ? columns_.back().get() : nullptr; }
  double scale(PushHeader& push, double clip_norm);
  void expect_answers(std::span<double> losses);
  AnswerHeader wait_for_answers();

  const Module& model_;
  WaitClock clock_;
  std::vector<std::unique_ptr<WorkerColumn>> columns_;
  Group& world_;  // of the first column, as its settings
  const ServerSettings& settings_;
  bool is_first_;  // of its workers
  ExpertGrains expert_grains_;
  WeightReady own_ready_, experts_ready_;  // of the present grain, where there are experts
  std::vector<Words> answers_;             // by server
  std::vector<double> started_losses_;
  std::vector<Work> works_;
};

}  // namespace athanor
