// A run with parameter servers, ranks as threads: micro-batches as the trainer computes them, and what a test wants to know.
//
//   const ServersObserved observed = run_servers(config, {.workers = 2, .servers = 1}, {.replay = schedules});
#pragma once

#include <cmath>
#include <mutex>
#include <utility>

#include "athanor/engine/compression_state.h"
#include "athanor/parallel/data/load_balance.h"
#include "athanor/parallel/parameter_server/server.h"
#include "athanor/parallel/parameter_server/worker.h"
#include "support/units.h"
#include "train/virtual_ranks.h"

namespace athanor::tests {

struct ServerLayout {
  int workers = 1, servers = 1;
  Consistency consistency = Consistency::sync;
  int64_t staleness = 0;
};

struct ServersObserved {
  Outcome outcome;                               // of worker 0; weights of the servers
  std::vector<std::vector<double>> loss_scales;  // by worker: of its steps
  std::vector<std::vector<int>> computed;        // [step][micro-batch]: by how many workers
  std::vector<std::vector<int64_t>>
      partitioned;  // after each step, where micro-batches are partitioned by speed
  std::vector<std::vector<PushRecord>> schedules;  // by server
  std::vector<Traffic> traffic;                    // by rank
  std::vector<std::string> failures;               // by rank: what a rank that could go on otherwise was told
  int64_t buckets_total = 0, values_total = 0;
};

struct ServerPlant {
  std::vector<std::vector<PushRecord>> replay = {};
  std::function<void(int worker, int64_t step)> before_push = {};
  int64_t commit_every = 1'000'000;
  int64_t stop_wished_at = 0;  // by worker 0
  // How slow a worker is in a step: micro-batches are partitioned anew by it after each step. Empty: evenly.
  std::function<double(int worker, int64_t step)> slow = {};
};

inline ServerSettings settings_of(const Config& config, const ServerLayout& layout,
                                  const ServerPlant& plant) {
  return {.roles = {.workers = layout.workers, .servers = layout.servers},
          .consistency = layout.consistency,
          .staleness = layout.staleness,
          .reduce = config.parallel.reduce == "tree" ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = config.parallel.bucket_bytes,
          .num_micro_batches = (config.train.global_batch_size + config.train.micro_batch_size - 1) /
                               config.train.micro_batch_size,
          .num_losses = 2,
          .balance_every = plant.slow ? 1 : 0,
          .compression = compression_of(config)};
}

class ServerRun {
 public:
  ServerRun(const Config& config, const ServerLayout& layout, const ServerPlant& plant)
      : config_(config), layout_(layout), plant_(plant), settings_(settings_of(config, layout, plant)) {
    observed_.schedules.resize(static_cast<size_t>(layout.servers));
    observed_.traffic.resize(static_cast<size_t>(settings_.roles.size()));
    observed_.loss_scales.resize(static_cast<size_t>(layout.workers));
    observed_.computed.assign(static_cast<size_t>(config.train.steps),
                              std::vector<int>(static_cast<size_t>(settings_.num_micro_batches), 0));
    observed_.failures.resize(static_cast<size_t>(settings_.roles.size()));
  }

  const ServersObserved& observed() const { return observed_; }
  const ServersObserved& run() {
    GroupOptions options;
    options.timeout_ms = 600'000;
    const auto worlds = make_thread_worlds(settings_.roles.size(), options);
    run_ranks(worlds, [this](World& world) {
      const int rank = world.rank();
      std::vector<int> members;
      const bool serves = settings_.roles.is_server(rank);
      for (int r = 0; r < world.size(); ++r)
        if (settings_.roles.is_server(r) == serves) members.push_back(r);
      const auto peers = world.make_group(members, serves ? "servers" : "workers");
      Engine engine;
      const auto model = make_model(config_.model);
      try {
        if (serves) {
          serve(world, *peers, engine, *model);
        } else {
          work(world, *peers, engine, *model);
        }
      } catch (const Recoverable& error) {
        observed_.failures[static_cast<size_t>(rank)] = error.what();
        throw;
      }
      world.all().barrier("end");
      observed_.traffic[static_cast<size_t>(rank)] = world.all().traffic();
    });
    return observed_;
  }

 private:
  bool commits(int64_t step) const { return step == config_.train.steps || step % plant_.commit_every == 0; }

  void serve(World& world, Group& servers, Engine& engine, Model& model) {
    const auto optimizer = make_optimizer({.name = config_.optimizer.name}, model.params());
    const auto me = static_cast<size_t>(servers.rank());
    ServerOptions options{
        .schedule = {.lr = config_.optimizer.lr, .steps = config_.train.steps, .warmup_steps = 2},
        .max_grad_norm = config_.optimizer.max_grad_norm,
        .on_push = [this, me](const PushRecord& record) { observed_.schedules[me].push_back(record); }};
    if (!plant_.replay.empty()) options.replay = plant_.replay[me];
    ParameterServer server(model, *optimizer, world.all(), servers, settings_, engine.arena, options);
    model.allocate(engine.arena, settings_.dtype, /*with_master=*/true);
    optimizer->allocate(engine.arena);
    model.initialize(config_.train.seed);
    server.start({.loss_scale = first_state(config_).loss_scale});
    Served served;
    while (served.step < config_.train.steps && !served.stop) served = server.serve();
    weights_of(model, servers);
  }

  // Of all servers, put together as a checkpoint puts them.
  void weights_of(const Model& model, Group& servers) {
    for (const auto& param : model.params()) {
      std::vector<float> whole(static_cast<size_t>(param->numel()), 0.0f);
      copy_to_host(whole.data() + param->range().first, param->master(), param->master().size_bytes());
      servers.all_reduce(whole.data(), param->numel(), Dtype::f32, "weights").wait();
      if (servers.rank() > 0) continue;
      observed_.outcome.weights.insert(observed_.outcome.weights.end(), whole.begin(), whole.end());
    }
  }

  void work(World& world, Group& workers, Engine& engine, Model& model) {
    const int me = workers.rank();
    ServerClient servers(model, world.all(), workers, settings_, engine.arena, nullptr);
    model.allocate(engine.arena, settings_.dtype, /*with_master=*/false);
    servers.allocate();
    servers.start();
    LoadBalance balance(workers, every_rank_alone(workers), settings_.num_micro_batches, {.every = 1});
    int64_t stop_step = 0;
    double loss_scale = first_state(config_).loss_scale.scale;
    for (int64_t step = 1; step <= config_.train.steps && (stop_step == 0 || step <= stop_step); ++step) {
      std::vector<double> losses(2, 0.0);
      servers.begin_step(
          {.num_micro_batches = settings_.num_micro_batches, .update = step, .loss_scale = loss_scale});
      int64_t index = 0;
      for (const int64_t micro_batch : servers.micro_batches_of_step(settings_.num_micro_batches)) {
        const Accumulated done =
            compute_micro_batch_of(config_, model, engine.arena, step, micro_batch, index++, loss_scale);
        count(step, micro_batch);
        losses[0] += done.loss;
        losses[1] += done.tokens;
        servers.end_micro_batch();
      }
      servers.finish();
      if (plant_.before_push) plant_.before_push(me, step);
      const AnswerHeader answer = servers.exchange(
          {.step = step,
           .commit = commits(step) || step == stop_step,
           .stop_here = step == stop_step,
           .wants_stop = me == 0 && plant_.stop_wished_at > 0 && step >= plant_.stop_wished_at,
           .tokens = losses[1],
           .loss_scale = loss_scale},
          config_.optimizer.max_grad_norm, losses);
      stop_step = answer.stop_step;
      observed_.loss_scales[static_cast<size_t>(me)].push_back(loss_scale);
      const double used = std::exchange(loss_scale, answer.loss_scale);
      if (plant_.slow && step < config_.train.steps) {
        balance.add(plant_.slow(me, step) *
                    static_cast<double>(servers.micro_batches_of_step(settings_.num_micro_batches).size()));
        balance.rebalance();
        servers.share_micro_batches(balance.counts());
        if (me == 0) observed_.partitioned.push_back(balance.counts());
      }
      if (me > 0) continue;
      StepResult result;
      result.loss = losses[0] / losses[1];
      result.tokens = static_cast<int64_t>(losses[1]);
      result.grad_norm = answer.grad_norm;
      result.loss_scale = used;
      result.applied = std::isfinite(answer.grad_norm);
      observed_.outcome.steps.push_back(result);
    }
    servers.settle();
    if (me > 0) return;
    const Buckets buckets(model.weights(), settings_.buckets());
    observed_.buckets_total = buckets.total;
    for (size_t b = 0; b < buckets.list.size(); ++b)
      if (!buckets.params(b).empty()) observed_.values_total += buckets.list[b].layout.total();
  }

  void count(int64_t step, int64_t micro_batch) {
    const std::scoped_lock lock(mutex_);
    ++observed_.computed[static_cast<size_t>(step - 1)].at(static_cast<size_t>(micro_batch));
  }

  Config config_;
  ServerLayout layout_;
  ServerPlant plant_;
  ServerSettings settings_;
  std::mutex mutex_;
  ServersObserved observed_;
};

inline ServersObserved run_servers(const Config& config, const ServerLayout& layout,
                                   const ServerPlant& plant = {}) {
  return ServerRun(config, layout, plant).run();
}

// A small model in a run of servers.
inline Config small_served(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.optimizer.name = optimizer;
  config.optimizer.betas = {0.9, 0.95};
  config.schedule.warmup_steps = 2;
  return config;
}

// A schedule that a plain asynchronous run would hardly take: one worker does all of its steps first.
inline std::vector<PushRecord> one_after_the_other(int workers, int64_t steps) {
  PushOrder order(workers, PushOrder::kUnbounded, 0, 0);
  order.take_answers();
  std::vector<PushRecord> records;
  for (int worker = workers - 1; worker >= 0; --worker)
    for (int64_t step = 1; step <= steps; ++step) {
      records.push_back(order.apply({.worker = worker, .step = step, .commit = step == steps}));
      order.take_answers();
    }
  return records;
}

}  // namespace athanor::tests
