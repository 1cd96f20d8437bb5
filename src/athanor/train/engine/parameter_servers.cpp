#include "athanor/train/engine/parameter_servers.h"

#include <fmt/format.h>

#include <numeric>

#include "athanor/train/engine/compression_state.h"
#include "athanor/train/engine/micro_batch.h"
#include "athanor/train/engine/setup.h"
#include "athanor/train/engine/worker_step.h"
#include "athanor/train/plan/layout.h"

namespace athanor::train::engine {
namespace {

ServerSettings server_settings(const Config& config, const ServerRoles& roles, int64_t num_channels) {
  const ParallelConfig& p = config.parallel;
  const int64_t micro_batches = micro_batches_of_step(config.train);
  return {.roles = roles,
          .parts = static_cast<int>(p.cp),
          .consistency = config.parameter_server.consistency == "sync"      ? Consistency::sync
                         : config.parameter_server.consistency == "bounded" ? Consistency::bounded
                                                                            : Consistency::async,
          .staleness = config.parameter_server.staleness,
          .reduce = p.reduce == "tree" ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = p.bucket_bytes,
          .num_micro_batches = micro_batches,
          .num_losses = static_cast<int64_t>(MicroBatchLosses::count(micro_batches, num_channels)),
          .balance_every = p.load_balance == "speed" ? p.load_balance_every : 0,
          .compression = compression_of(config)};
}

}  // namespace

ServerPlaces::ServerPlaces(const Config& config, World& world)
    : roles_{.workers = training_ranks(config, world.size()),
             .servers = static_cast<int>(config.parameter_server.servers)},
      serves_(roles_.is_server(world.rank())) {
  std::vector<int> all(static_cast<size_t>(roles_.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto first_server = all.begin() + roles_.workers;
  peers_ = serves_ ? world.make_group({first_server, all.end()}, "servers")
                   : world.make_group({all.begin(), first_server}, "workers");
  ranks_ = world.make_group(all, "workers and servers");
}

bool is_commit(const Config& config, int64_t step) {
  const auto due = [step](int64_t every) { return every > 0 && step % every == 0; };
  return due(config.checkpoint.every_steps) || due(config.train.eval_every) || step >= config.train.steps;
}

std::string schedule_file(const std::string& folder, int server) {
  return join_path(folder, fmt::format("server{}.csv", server));
}

void Training::serve(const ServerPlaces& places, ServerLogs logs) {
  places_ = &places;
  logs_ = std::move(logs);
}

void Training::allocate_served() {
  const ServerSettings settings = server_settings(config_, places_->roles(), step_options_.num_channels);
  Group& ranks = places_->ranks();
  if (!places_->serves()) {
    client = std::make_unique<ServerClient>(*model, ranks, group_, settings, arena, step_options_.pass.trace,
                                            step_options_.pass.clock);
    model->allocate(arena, compute, /*with_master=*/false);
    client->allocate();
    make_pipeline();
    step_options_.pass.pack_weights = false;  // values are pulled while the pass runs
    runner = std::make_unique<WorkerStep>(
        *model, *client, *pipeline, group_, arena,
        WorkerOptions{.schedule = step_options_.schedule,
                      .max_grad_norm = step_options_.max_grad_norm,
                      .num_channels = step_options_.num_channels,
                      .commits = [this](int64_t step) { return is_commit(config_, step); },
                      .stop = step_options_.stop,
                      .is_sync = settings.consistency == Consistency::sync,
                      .pass = step_options_.pass});
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
  server = std::make_unique<ParameterServer>(*model, *optimizer, ranks, group_, settings, arena,
                                             std::move(options));
  model->allocate(arena, compute, /*with_master=*/true);
  optimizer->allocate(arena);
}

void Training::publish(const TrainState& state) {
  if (client) client->start();
  if (server)
    server->start({.step = state.step,
                   .updates = state.updates,
                   .tokens = state.tokens,
                   .stop = false,
                   .loss_scale = state.loss_scale});
  if (parallel) parallel->publish();
}

void Training::settle() {
  if (client) client->settle();
  if (server) server->finish();
}

std::vector<int64_t> Training::own_micro_batches() const {
  if (client) return client->micro_batches_of_step(num_micro_batches);
  return parallel ? parallel->micro_batches_of_step(num_micro_batches) : std::vector<int64_t>{};
}

void Training::share_micro_batches(const std::vector<int64_t>& counts) {
  if (client) return client->share_micro_batches(counts);
  parallel->share_micro_batches(counts);
}

uint64_t Training::gradient_buffer_bytes() const {
  if (client) return client->buffer_bytes();
  return parallel ? parallel->buffer_bytes() : 0;
}

}  // namespace athanor::train::engine
