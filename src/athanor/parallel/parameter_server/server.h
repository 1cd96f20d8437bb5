// The loop of one parameter server: receives pushes, updates its shard of the parameters, answers with the new
// parameters.
//
//   ParameterServer server(*model, optimizer, all, servers, settings, arena, options);   // before model.allocate()
//   ... the parameters get memory and values, the optimizer its state ...
//   server.start({.step = 0, .updates = 0, .tokens = 0});      // sends the parameters to all workers
//   while (...) Served served = server.serve();                // until a commit: all workers are at one step
//
// sync: a step of all workers is one update, with the bits of data parallelism (the same order of sums; the servers
// all-reduce the norm of the whole gradient). bounded and async: each push, scaled by its worker, is one update,
// applied in the order of arrival; push_order.h decides who is answered, and a replay log records the order. With
// `replay` pushes are applied in the order of that log, and each record is compared with this run. Compressed pushes
// are decoded, then summed.
//
// f16: an update that overflows is skipped; only the loss scale changes. sync: the norm of the summed gradient decides,
// with equal bits on all servers. bounded and async: the worker's own norm decides, and server 0 has the loss scale; a
// push that was computed with another scale than the current one does not change it. Server 0 sends the scale with each
// answer.
//
// An update waits until the workers have received all earlier answers. Errors: the group's, which name the worker that
// has died, failed or is late (law 8); Error for a gradient that is not finite, a push out of order, and a replay that
// differs or ends. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/nn/module.h"
#include "athanor/optim/loss_scale.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/parallel/data/micro_batch_shares.h"
#include "athanor/parallel/parameter_server/arrivals.h"
#include "athanor/parallel/parameter_server/coded_push.h"
#include "athanor/parallel/parameter_server/push_order.h"
#include "athanor/parallel/parameter_server/server_shard.h"

namespace athanor::parallel::parameter_server {

struct ServerOptions {
  LrSchedule schedule;
  double max_grad_norm = 0.0;  // sync: maximal gradient norm, 0: no clipping; bounded, async: workers clip
  std::function<void(const PushRecord&)> on_push = {};  // bounded, async: each applied push
  std::vector<PushRecord> replay = {};                  // empty: pushes are applied as they come
  int64_t pushes = 0;  // bounded, async: pushes in the log so far, which this run continues
};

// The state of a run at a commit, when all workers are at one step.
struct Served {
  int64_t step = 0, updates = 0, tokens = 0;
  bool stop = false;  // a rank was asked to stop: this was the last step
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
  }                                    // of this server's shard, in the last step
  void finish() { finish_answers(); }  // waits until workers have received all answers
  void rehearse();  // the sums of a step without workers, for the memory plan on the null device

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
  MicroBatchShares micro_batches_;    // micro-batches of each worker
  PushOrder order_;
  Served at_;
  int64_t started_step_ = 0, stop_step_ = 0;
  size_t replayed_ = 0;  // lines of options_.replay that are done

  std::vector<Words> headers_, answer_headers_;                // by worker
  std::vector<std::vector<double>> losses_, answered_losses_;  // server 0, by worker: since its last answer
  std::vector<double> pushed_losses_;
  std::vector<Work> answers_;
  std::unique_ptr<Arrivals> arrivals_;  // bounded, async
};

}  // namespace athanor::parallel::parameter_server
