// The loop of one parameter server: takes what workers push, updates its share of the parameters, answers.
//
//   ParameterServer server(*model, optimizer, all, servers, settings, arena, options);   // before model.allocate()
//   ... the parameters get memory and values, the optimizer its state ...
//   server.start({.step = 0, .updates = 0, .tokens = 0});      // all workers get the parameters
//   while (...) Served served = server.serve();                // until a commit: all workers stand at one step
//
// Synchronous: a step of all workers is one update, with the bits of data parallelism (the same order of sums, the norm
// of the whole gradient; the servers exchange its parts). Bounded and asynchronous: each push is an update of its own,
// already scaled by its worker, applied in the order in which pushes come, which push_order.h turns into answers, and a
// log keeps. `replay` is such a log: its order is waited for, and everything that it says is held against this run.
// Where compression is on, what comes are codes, and what is summed is what they decode to.
//
// f16: what overflows is skipped and changes nothing but the loss scale, which server 0 tells workers with each answer.
// Synchronous: the norm of the sum decides, whose bits all servers have. Else the worker's own norm does, for all servers
// alike, and server 0 has the scale; a push with another scale than the present one says nothing of it.
//
// What waits on what: an update waits until every answer that was sent before has been taken. Errors: the group's, which
// name the worker that died, erred or is late (law 8); Error for a gradient that is not finite, a push out of order, and
// a replay that differs or ends. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/nn/module.h"
#include "athanor/optim/loss_scale.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/parallel/grain_shares.h"
#include "athanor/parallel/parameter_server/arrivals.h"
#include "athanor/parallel/parameter_server/coded_push.h"
#include "athanor/parallel/parameter_server/push_order.h"
#include "athanor/parallel/parameter_server/server_shard.h"

namespace athanor {

struct ServerOptions {
  LrSchedule schedule;
  double max_grad_norm = 0.0;  // 0: none; sync, workers clip what they push otherwise
  std::function<void(const PushRecord&)> on_push = {};  // bounded, async: each applied push
  std::vector<PushRecord> replay = {};                  // empty: pushes are applied as they come
  int64_t pushes = 0;  // bounded, async: of the log so far, which goes on from there
};

// Where a run stands, when all workers stand at one step.
struct Served {
  int64_t step = 0, updates = 0, tokens = 0;
  bool stop = false;  // some rank was asked to stop: this was the last step
  LossScale loss_scale = {};
};

class ParameterServer {
 public:
  ParameterServer(const Module& model, Optimizer& optimizer, Group& world, Group& servers,
                  const ServerSettings& settings, Arena& arena, ServerOptions options);

  void start(const Served& from);
  Served serve();
  const Tensor& grad(const Param& param) const {
    return shard_.grad(param);
  }                                                     // this server's, of the last step
  void finish() { finish_answers(); }                   // all that was answered has been taken
  Traffic traffic() const { return world_.traffic(); }  // of this rank
  void rehearse();  // a step's sums without workers, for the plan of memory on the null device

 private:
  Served serve_steps();
  Served serve_pushes();
  bool is_first() { return servers_.rank() == 0; }
  void take_step(int64_t step);
  void take_bucket(size_t bucket, int64_t step);
  void take_push(int worker, int64_t step);
  void receive_gradients(int worker, size_t bucket, int64_t step);
  void receive_losses(int worker);
  PushHeader receive_header(int worker);
  double gradient_norm(int64_t step);
  void share_loss_scale();
  void update(int64_t step, double grad_scale);
  int next_worker();
  void record(const PushRecord& record);
  void expect_headers();
  void receive_shares();
  void answer(int worker, AnswerHeader header);
  void finish_answers();

  const Module& model_;
  Optimizer& optimizer_;
  ServerOptions options_;
  Group& world_;  // the workers, then the servers
  Group& servers_;
  const ServerSettings settings_;
  ServerShard shard_;
  std::unique_ptr<CodedRows> coded_;  // null: nothing is compressed
  GrainShares grains_;                // of the workers
  PushOrder order_;
  Served at_;
  int64_t started_step_ = 0, stop_step_ = 0;
  size_t replayed_ = 0;  // lines of options_.replay

  std::vector<Words> headers_, answer_headers_;                // by worker
  std::vector<std::vector<double>> losses_, answered_losses_;  // by worker: since its last answer; server 0
  std::vector<double> pushed_losses_;
  std::vector<Work> answers_;
  std::unique_ptr<Arrivals> arrivals_;  // bounded, async
};

}  // namespace athanor
