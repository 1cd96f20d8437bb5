#include "athanor/train/served.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/parallel/experts_apart.h"
#include "athanor/train/compression_state.h"
#include "athanor/train/grain.h"
#include "athanor/train/layout.h"
#include "athanor/train/setup.h"
#include "athanor/train/worker_step.h"

namespace athanor {
namespace {

// Some ranks of another world, neighbours.
class SomeRanks final : public World {
 public:
  SomeRanks(World& whole, int first, Group& all) : whole_(whole), first_(first), all_(all) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  Group& all() override { return all_; }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    for (int& member : members) member += first_;
    return whole_.make_group(std::move(members), std::move(name));
  }
  void abort(const std::string& reason) override { whole_.abort(reason); }

 private:
  World& whole_;
  int first_;
  Group& all_;
};

// Each column has as many servers.
MeshShape server_shape(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return {.pp = static_cast<int>(p.pp),
          .dp = static_cast<int>(p.servers / (p.pp * p.tp)),
          .tp = static_cast<int>(p.tp),
          .ep = static_cast<int>(p.ep)};
}

// Of everything but experts, where these are apart.
ServerSettings server_settings(const Config& config, const ServerRoles& roles, int64_t num_channels) {
  const ParallelConfig& p = config.parallel;
  const int64_t grains = grains_of_step(config.train);
  return {.roles = roles,
          .parts = static_cast<int>(p.cp),
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

}  // namespace

ServerPlaces::ServerPlaces(const Config& config, World& world)
    : workers_(mesh_shape(config, world.size())),
      servers_(server_shape(config)),
      serves_(world.rank() >= workers_.num_ranks()),
      shape_(serves_ ? servers_ : workers_) {
  const int first = serves_ ? workers_.num_ranks() : 0;
  std::vector<int> members(static_cast<size_t>(shape_.num_ranks()));
  std::iota(members.begin(), members.end(), first);
  of_kind_ = world.make_group(std::move(members), serves_ ? "servers" : "workers");
  peers_ = std::make_unique<SomeRanks>(world, first, *of_kind_);
  column_ = make_place(world, {Axis::pp, Axis::tp}, "column of servers");
  if (sums_experts_apart(config, workers_))
    experts_ = make_place(world, {Axis::pp, Axis::ep}, "column of experts");
}

ServerPlaces::Place ServerPlaces::make_place(World& world, std::initializer_list<Axis> alike,
                                             const std::string& name) const {
  const int first_server = workers_.num_ranks(), own = world.rank() - (serves_ ? first_server : 0);
  std::vector<int> members;
  ServerRoles roles{.workers = 0, .servers = 0};
  for (const bool serve : {false, true}) {
    const MeshShape& shape = serve ? servers_ : workers_;
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      const bool is_alike = std::all_of(alike.begin(), alike.end(), [&](Axis axis) {
        return shape.coordinate(rank, axis) == shape_.coordinate(own, axis);
      });
      if (!is_alike) continue;
      members.push_back(rank + (serve ? first_server : 0));
      ++(serve ? roles.servers : roles.workers);
    }
  }
  return {roles, world.make_group(std::move(members), name)};
}

std::vector<Column> ServerPlaces::columns(const Config& config, int64_t num_channels, Group& peers,
                                          Group* experts) const {
  std::vector<Column> columns = {{.ranks = *column_.ranks,
                                  .peers = peers,
                                  .settings = server_settings(config, column_.roles, num_channels)}};
  if (experts_.ranks == nullptr) return columns;
  ServerSettings settings = columns.front().settings;
  const int parts = workers_.expert_parts();
  settings.num_grains = ExpertGrains(parts).in_step(settings.num_grains, workers_.dp, experts_.roles.workers);
  settings.roles = experts_.roles;
  settings.parts = std::max(1, parts);
  settings.numbers_apart = parts == 0;
  columns.push_back({.ranks = *experts_.ranks, .peers = *experts, .settings = settings});
  return columns;
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
  const std::vector<Column> columns =
      places_->columns(config_, step_options_.num_channels, group_, parallel_options_.expert_group);
  if (!places_->serves()) {
    client = std::make_unique<ServerClient>(*model, columns, arena, step_options_.pass.trace);
    model->allocate(arena, compute, /*with_master=*/false);
    client->allocate();
    make_pipeline();
    step_options_.pass.pack_weights = false;  // values come in while they are used
    runner = std::make_unique<WorkerStep>(
        *model, *client, losses_ != nullptr ? *losses_ : group_, arena,
        WorkerOptions{.schedule = step_options_.schedule,
                      .clip_norm = step_options_.clip_norm,
                      .num_channels = step_options_.num_channels,
                      .commits = [this](int64_t step) { return is_commit(config_, step); },
                      .stop = step_options_.stop,
                      .is_sync = columns.front().settings.consistency == Consistency::sync,
                      .pass = step_options_.pass,
                      .groups = step_options_.groups});
    return;
  }
  stage_ = std::make_unique<StageGradients>(*model, step_options_.groups);
  ServerOptions options{
      .schedule = step_options_.schedule,
      .clip_norm = step_options_.clip_norm,
      .on_push = {},
      .sum_shared =
          [this](const auto& grad_of) { stage_->sum_shared(grad_of, [](Param&, const Tensor&) {}); },
      .norm = [this](const std::vector<double>& squares, bool may_overflow,
                     int64_t step) { return stage_->norm(squares, may_overflow, step); },
      .replay = std::move(logs_.replay),
      .pushes = logs_.pushes};
  if (logs_.log != nullptr)
    options.on_push = [log = logs_.log](const PushRecord& record) { log->write(record); };
  optimizer = make_optimizer(optimizer_options_, model->params());
  server = std::make_unique<ParameterServer>(*model, *optimizer, columns, arena, std::move(options));
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
  if (client) return client->grains_of_step(num_grains);
  return parallel ? parallel->grains_of_step(num_grains) : std::vector<int64_t>{};
}

void Training::share_grains(const std::vector<int64_t>& counts) {
  if (client) return client->share_grains(counts);
  parallel->share_grains(counts);
}

uint64_t Training::gradient_buffer_bytes() const {
  if (client) return client->gradient_buffer_bytes();
  return parallel ? parallel->gradient_buffer_bytes() : 0;
}

}  // namespace athanor
