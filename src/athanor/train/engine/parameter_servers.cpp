#include "athanor/train/engine/parameter_servers.h"

#include <fmt/format.h>

#include "athanor/train/engine/compression_state.h"
#include "athanor/train/engine/micro_batch.h"
#include "athanor/train/engine/setup.h"
#include "athanor/train/engine/worker_step.h"

namespace athanor::train::engine {
namespace {

ServerSettings server_settings(const Config& config, const Layout& layout, int64_t num_channels) {
  const ParallelConfig& p = config.parallel;
  const int64_t micro_batches = micro_batches_of_step(config.train);
  return {.roles = {.workers = layout.training_ranks(), .servers = layout.servers},
          .parts = layout.cp,
          .consistency = config.parameter_server.consistency == "sync"      ? Consistency::sync
                         : config.parameter_server.consistency == "bounded" ? Consistency::bounded
                                                                            : Consistency::async,
          .staleness = config.parameter_server.staleness,
          .reduce = layout.tree ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = p.bucket_bytes,
          .num_micro_batches = micro_batches,
          .num_losses = static_cast<int64_t>(MicroBatchLosses::count(micro_batches, num_channels)),
          .balance_every = layout.shares == Shares::by_speed ? p.load_balance_every : 0,
          .compression = compression_of(config)};
}

}  // namespace

bool is_commit(const Config& config, int64_t step) {
  const auto due = [step](int64_t every) { return every > 0 && step % every == 0; };
  return due(config.checkpoint.every_steps) || due(config.train.eval_every) || step >= config.train.steps;
}

std::string schedule_file(const std::string& folder, int server) {
  return join_path(folder, fmt::format("server{}.csv", server));
}

void Training::allocate_served() {
  const ServerSettings settings = server_settings(config_, layout_, step_options_.num_channels);
  Group &ranks = *groups_.exchange, &peers = *groups_.role;
  if (!is_server_) {
    client = std::make_unique<ServerClient>(*model, ranks, peers, settings, arena, step_options_.pass.trace,
                                            step_options_.pass.clock);
    model->allocate(arena, compute, /*with_master=*/false);
    client->allocate();
    make_pipeline();
    step_options_.pass.pack_weights = false;  // values are pulled while the pass runs
    runner = std::make_unique<WorkerStep>(
        *model, *client, *pipeline, peers, arena,
        WorkerOptions{.step = step_options_,
                      .commits = [this](int64_t step) { return is_commit(config_, step); },
                      .is_sync = settings.consistency == Consistency::sync});
    return;
  }
  ServerOptions options{.schedule = step_options_.schedule,
                        .max_grad_norm = step_options_.max_grad_norm,
                        .on_push = {},
                        .replay = std::move(logs_.replay),
                        .pushes = logs_.pushes};
  if (logs_.log != nullptr)
    options.on_push = [log = logs_.log](const PushRecord& record) { log->write(record); };
  optimizer = make_optimizer(optimizer_options_, model->params());
  server = std::make_unique<ParameterServer>(*model, *optimizer, ranks, peers, settings, arena,
                                             std::move(options));
  model->allocate(arena, compute, /*with_master=*/true);
  optimizer->allocate(arena);
}

void Training::publish(const TrainState& state) {
  if (outer) outer->begin();
  if (client) client->start();
  if (server)
    server->start({.step = state.step,
                   .updates = state.updates,
                   .tokens = state.tokens,
                   .stop = false,
                   .loss_scale = state.loss_scale});
  if (parallel) parallel->publish();
}

void Training::rehearse() {
  if (server) server->rehearse();
}

void Training::settle() {
  if (client) client->settle();
  if (server) server->finish();
}

Gradients* Training::gradients() const {
  return client ? static_cast<Gradients*>(client.get()) : parallel.get();
}

std::vector<int64_t> Training::own_micro_batches() const {
  return server ? std::vector<int64_t>{} : gradients()->micro_batches_of_step(num_micro_batches);
}

}  // namespace athanor::train::engine
