// What a rank does with the gradients and the parameters of its part of the model. Without parameter servers every rank
// sums and updates with the others (data_parallel_role.h); with them a worker pushes and pulls (worker_role.h), and a
// server updates (server_role.h).
//
//   std::unique_ptr<Role> role = make_role(declared, env, host);   // gives parameters, gradients and state their memory
//   role->publish(state);                                          // collective: the parameters as they are now
//   role->step(state, next_batch);                                 // on a rank that trains
//   role->serve();                                                 // on a server, until all workers are at a commit
//
// Errors: those of the step and of the groups; Error for step() on a server and for serve() elsewhere. Thread rule: one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/engine/offload.h"
#include "athanor/engine/parameter_servers.h"
#include "athanor/engine/step.h"
#include "athanor/layout/groups.h"
#include "athanor/layout/layout.h"
#include "athanor/parallel/data/local_sgd.h"
#include "athanor/parallel/parameter_server/server.h"

namespace athanor::engine {

// What is known of a run before anything has memory.
struct Declared {
  Config config;
  Layout layout;
  const Groups& groups;
  Arena& arena;
  Model& model;
  OptimizerOptions optimizer;
  DataParallelOptions parallel;
  OuterOptions outer;
  StepOptions step;
  ServerLogs logs;
};

class Role {
 public:
  virtual ~Role() = default;
  // Whether this rank owns the parameter's values, so that it initializes, saves and loads them.
  virtual bool keeps(const ParamSpec& param) const = 0;
  // Every rank gets the values that the others have set. Returns before they have arrived.
  virtual void publish(const TrainState& state) = 0;
  virtual void settle() = 0;  // waits for all that is under way between ranks

  virtual bool serves() const { return false; }
  // Whether values and state are all of one step: false after some steps that broke off (engine/step.h).
  virtual bool is_whole() const { return true; }
  // Runs step state.step + 1. next_batch() returns this rank's micro-batches of the step in order. `may_repeat`: where
  // repeats() is true, a step from which training could not go on is left undone (engine/step.h).
  virtual StepResult step(TrainState& state, const std::function<const Batch&()>& next_batch,
                          bool may_repeat = false);
  virtual bool repeats() const { return false; }
  virtual Served serve();
  virtual void rehearse() {}  // of a server: the sums of a step without workers, for the memory plan

  virtual Gradients* gradients() { return nullptr; }      // null: a server computes none
  virtual PipelineRunner* pipeline() { return nullptr; }  // null: a server runs no pass
  virtual OuterSync* outer() { return nullptr; }          // null: no outer steps
  virtual const Tensor* grad(Param&) {
    return nullptr;
  }  // of the last step; null: a worker has only its own part
  // Of the micro-batches of a step: how many its gradients sum over.
  virtual int64_t summed_micro_batches(int64_t of_step) const { return of_step; }
  virtual std::vector<Optimizer::State> optimizer_states() const { return {}; }
  // Whether updates write masters and optimizer state elsewhere, if they have places (autograd/state_home.h).
  virtual bool updates_out_of_place() const { return false; }
  virtual std::vector<ExchangeState> exchange_states() const { return {}; }
};

std::unique_ptr<Role> make_role(const Declared& declared, Env& env, HostMemory* host);

// The pipeline of a rank that trains; its parameters have memory.
std::unique_ptr<PipelineRunner> make_pipeline(const Declared& declared);

}  // namespace athanor::engine
