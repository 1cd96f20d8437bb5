#include "athanor/train/served.h"

#include <fmt/format.h>

#include <numeric>

#include "athanor/base/check.h"
#include "athanor/train/compression_state.h"
#include "athanor/train/grain.h"
#include "athanor/train/layout.h"
#include "athanor/train/setup.h"
#include "athanor/train/worker_step.h"

namespace athanor {
namespace {

// The first ranks of another world.
class FirstRanks final : public World {
 public:
  FirstRanks(World& whole, Group& all) : whole_(whole), all_(all) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  Group& all() override { return all_; }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    return whole_.make_group(std::move(members), std::move(name));
  }
  void abort(const std::string& reason) override { whole_.abort(reason); }

 private:
  World& whole_;
  Group& all_;
};

}  // namespace

ServerPlaces::ServerPlaces(const Config& config, World& world)
    : world_(world),
      roles_{.workers = training_ranks(config, world.size()),
             .servers = static_cast<int>(config.parallel.servers)} {
  std::vector<int> members(static_cast<size_t>(serves() ? roles_.servers : roles_.workers));
  std::iota(members.begin(), members.end(), serves() ? roles_.workers : 0);
  peers_ = world.make_group(std::move(members), serves() ? "servers" : "workers");
  if (!serves()) workers_ = std::make_unique<FirstRanks>(world, *peers_);
}

World& ServerPlaces::workers() {
  check(workers_ != nullptr, "parameter servers: rank {} is a server, expected a worker", world_.rank());
  return *workers_;
}

ServerSettings server_settings(const Config& config, const ServerRoles& roles, int64_t num_channels) {
  const ParallelConfig& p = config.parallel;
  const int64_t grains = grains_of_step(config.train);
  return {.roles = roles,
          .consistency = p.consistency == "sync"      ? Consistency::sync
                         : p.consistency == "bounded" ? Consistency::bounded
                                                      : Consistency::async,
          .staleness = p.staleness,
          .reduce = p.reduce == "tree" ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = p.bucket_bytes,
          .num_grains = grains,
          .num_losses = static_cast<int64_t>(GrainLosses::count(grains, num_channels)),
          .balance_every = p.balance == "speed" ? p.balance_every : 0,
          .compression = compression_of(config)};
}

bool is_commit(const Config& config, int64_t step) {
  const auto due = [step](int64_t every) { return every > 0 && step % every == 0; };
  return due(config.checkpoint.every_steps) || due(config.train.eval_every) || step >= config.train.steps;
}

std::string schedule_file(const std::string& folder, int server) {
  return join_path(folder, fmt::format("server{}.csv", server));
}

void Training::serve(ServerPlaces& places, ServerLogs logs) {
  places_ = &places;
  logs_ = std::move(logs);
}

void Training::allocate_served() {
  const ServerSettings settings = server_settings(config_, places_->roles(), step_options_.num_channels);
  if (!places_->serves()) {
    client =
        std::make_unique<ServerClient>(*model, places_->all(), group_, arena, settings, step_options_.trace);
    model->allocate(arena, compute, /*with_master=*/false);
    client->allocate();
    runner = std::make_unique<WorkerStep>(
        *model, *client, arena,
        WorkerOptions{.schedule = step_options_.schedule,
                      .clip_norm = step_options_.clip_norm,
                      .recompute = step_options_.recompute,
                      .num_grains = num_grains,
                      .num_channels = step_options_.num_channels,
                      .commits = [this](int64_t step) { return is_commit(config_, step); },
                      .stop = step_options_.stop,
                      .trace = step_options_.trace});
    return;
  }
  ServerOptions options{.schedule = step_options_.schedule,
                        .clip_norm = step_options_.clip_norm,
                        .on_push = {},
                        .replay = std::move(logs_.replay),
                        .pushes = logs_.pushes};
  if (logs_.log != nullptr)
    options.on_push = [log = logs_.log](const PushRecord& record) { log->write(record); };
  optimizer = make_optimizer(optimizer_options_, model->params());
  server = std::make_unique<ParameterServer>(*model, *optimizer, places_->all(), group_, arena, settings,
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

std::vector<int64_t> Training::own_grains() const {
  if (client) return client->gradients().grains_of_step(num_grains);
  return parallel ? parallel->grains_of_step(num_grains) : std::vector<int64_t>{};
}

void Training::share_grains(const std::vector<int64_t>& counts) {
  if (client) return client->share_grains(counts);
  parallel->share_grains(counts);
}

uint64_t Training::gradient_buffer_bytes() const {
  if (client) return client->gradients().buffer_bytes();
  return parallel ? parallel->gradient_buffer_bytes() : 0;
}

}  // namespace athanor
