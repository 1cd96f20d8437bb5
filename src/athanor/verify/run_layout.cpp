// The ranks of a layout, or of a chain of layouts, as threads.
#include <algorithm>
#include <memory>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
#include "athanor/base/thread_pool.h"
#include "athanor/checkpoint/snapshot.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/data/loader.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/engine/param_slices.h"
#include "athanor/kernels/table.h"
#include "athanor/run/server_run.h"
#include "athanor/verify/verify.h"

namespace athanor::verify {
namespace {

using Worlds = std::vector<std::unique_ptr<World>>;

struct Gathered {
  Gathering first_weights, gradients, weights, state;
};

// One rank: trains in the segments that have it, and hands its tensors to `gathered`.
class VerifiedRank {
 public:
  VerifiedRank(const Config& config, int64_t num_channels, const ReadMicroBatch& read, World& all,
               const LayoutHooks& hooks, Gathered& gathered, VerifyRun& run)
      : num_channels_(num_channels),
        read_(read),
        all_(all),
        hooks_(hooks),
        gathered_(gathered),
        run_(run),
        queue_(make_cpu_queue(&pool_, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa))),
        state_(first_state(config)) {}

  // `world`: of the segment's ranks; null: this rank is not one of them. Each segment but the first starts from the
  // snapshot that the one before left.
  void train(const VerifySegment& segment, std::unique_ptr<World> world, bool is_first, bool is_last) {
    std::optional<Engine> engine;
    if (world != nullptr) engine.emplace(*this, segment.config, *world);
    if (is_first) {
      if (engine) begin(engine->training);
    } else {
      const SnapshotHead head = load_snapshot(all_.all(), snapshot_, arena_, [&](const TensorSource& source) {
        if (engine) engine->training.load(source);
      });
      state_ = TrainState::from_json(head.state);
      snapshot_ = {};
    }
    if (segment.may_break) all_.all().barrier("engines are built");  // whose groups a failure would break
    if (engine) train_in(*engine, segment, *world);
    if (is_last && engine)
      for (const NamedTensor& part : engine->training.tensors())
        (is_weight(engine->training, part) ? gathered_.weights : gathered_.state).put(part);
    if (!is_last) leave_snapshot(engine ? &engine->training : nullptr, world.get(), segment.may_break);
    if (segment.may_break)
      all_.all().barrier("end of a segment");  // others may still read what the engine holds
  }

 private:
  struct Engine {
    Engine(VerifiedRank& rank, const Config& config, World& world)
        : layout(layout_of(rank, config, world)),
          groups(layout, world),
          slots(slots_of(rank, config, world)),
          training(
              config, layout, changed(rank), rank.arena_,
              {.num_channels = rank.num_channels_, .sharding = rank.hooks_.sharding, .slots = slots.get()}) {
      if (rank.hooks_.declared) rank.hooks_.declared(training);
      training.allocate();
    }
    static Layout layout_of(const VerifiedRank& rank, const Config& config, const World& world) {
      Layout layout = make_layout(config, {.world_size = world.size()});
      if (rank.hooks_.layout) rank.hooks_.layout(layout);
      return layout;
    }
    const Groups& changed(const VerifiedRank& rank) {
      if (rank.hooks_.groups) rank.hooks_.groups(groups);
      return groups;
    }
    // In memory of the process: no parent has to outlive it.
    std::unique_ptr<SnapshotSlots> slots_of(VerifiedRank& rank, const Config& config, const World& world) {
      const SnapshotChoice choice = choose_snapshot(config, layout, /*is_launched=*/false);
      if (choice.mode == SnapshotMode::off) return nullptr;
      SnapshotPlan plan = plan_snapshot(config, layout, world.rank(), choice);
      auto memory = map_shared_memory(plan.size_bytes());
      return std::make_unique<SnapshotSlots>(
          std::move(plan), rank.arena_, memory,
          SlotIdentity{.run = "verify", .layout = "verify", .rank = world.rank()});
    }
    const Layout layout;
    Groups groups;
    std::unique_ptr<SnapshotSlots> slots;
    Training training;
  };

  // `training`: null on a rank that the segment did not have; `world`: that of the segment.
  void leave_snapshot(const Training* training, const World* world, bool may_have_broken) {
    int64_t step = state_.step;
    if (may_have_broken) {
      std::vector<HeldPart> held;
      if (training != nullptr)
        held.push_back({{.rank = world->rank(), .size = world->size()}, training->whole_steps(state_)});
      const auto common = common_step(all_.all(), held);
      check(common.has_value(), "verify: after the failure the ranks have no step in common, expected one");
      step = common->step;
    }
    if (training == nullptr) return;
    std::vector<NamedTensor> tensors = training->go_back_to(step, state_);
    if (all_.rank() == 0) {  // each step stands once
      const auto steps = static_cast<size_t>(step);
      run_.losses.resize(std::min(run_.losses.size(), steps));
      run_.grad_norms.resize(run_.losses.size());
      run_.experts.resize(std::min(run_.experts.size(), steps));
    }
    snapshot_ = Snapshot(
        {.step = step, .state = state_.to_json(), .tensors = std::move(tensors), .files = {}}, arena_);
  }

  void train_in(Engine& engine, const VerifySegment& segment, World& world) {
    Training& training = engine.training;
    try {
      training.role->publish(state_);
      training.keep_first(state_);
      if (hooks_.begin) hooks_.begin(training, state_, world);
      if (training.role->serves())
        serve(training, segment.last_step);
      else
        run_steps(training, segment.last_step, world);
      training.role->settle();
    } catch (const Failure& failure) {
      if (!segment.may_break) throw;
      world.abort(failure.what());
    }
    if (hooks_.end) hooks_.end(training, state_, world);
  }

  static bool is_weight(const Training& training, const NamedTensor& part) {
    return part.name.starts_with("model.") || part.name.starts_with(training.prefix() + "model.");
  }

  void begin(Training& training) {
    training.initialize(state_.seed);
    for (const NamedTensor& part : training.tensors())
      if (is_weight(training, part)) gathered_.first_weights.put(part);
  }

  void run_steps(Training& training, int64_t last_step, World& world) {
    Batch batch;
    for (int64_t step = state_.step + 1; step <= last_step; ++step) {
      const std::vector<int64_t> micro_batches = training.own_micro_batches();
      auto micro_batch = micro_batches.begin();
      const StepResult done = training.role->step(state_, [&]() -> const Batch& {
        read_(step, *micro_batch++, batch);
        return batch;
      });
      if (world.rank() == 0) {
        run_.losses.push_back(done.loss);
        run_.grad_norms.push_back(done.grad_norm);
        if (done.experts) run_.experts.push_back(*done.experts);
      }
      done.or_throw();
      if (step == 1) gather_gradients(training);
      if (hooks_.after_step) hooks_.after_step(training, state_, world);
    }
  }

  void serve(Training& training, int64_t last_step) {
    serve_steps(*training.role, last_step, state_, [&](bool) {
      if (state_.step == 1) gather_gradients(training);
    });
  }

  void gather_gradients(const Training& training) {
    std::vector<NamedTensor> parts;
    for (const auto& param : training.model->params()) {
      if (param->is_state()) continue;
      if (const Tensor* grad = training.role->grad(*param))
        add_slices(parts, training.prefix() + "gradient", *param, param->range(), {*grad});
    }
    for (const NamedTensor& part : parts) gathered_.gradients.put(part);
  }

  const int64_t num_channels_;
  const ReadMicroBatch& read_;
  World& all_;
  const LayoutHooks& hooks_;
  Gathered& gathered_;
  VerifyRun& run_;
  ThreadPool pool_{1};
  std::unique_ptr<Queue> queue_;
  Arena arena_{*queue_, 0, [this](size_t bytes) { return all_.allocate(bytes); }};
  TrainState state_;
  Snapshot snapshot_;
};

}  // namespace

VerifyRun run_layouts(std::vector<VerifySegment> segments, int64_t num_channels, const ReadMicroBatch& read,
                      const LayoutHooks& hooks) {
  check(!segments.empty(), "verify: got no layout");
  int most = 1;
  std::vector<Worlds> worlds;
  for (VerifySegment& segment : segments) {
    segment.config.checkpoint.every_steps = 1;  // every step ends with a global barrier of the servers
    worlds.push_back(make_thread_worlds(segment.ranks));
    most = std::max(most, segment.ranks);
  }
  VerifyRun run;
  Gathered gathered;
  run_ranks(make_thread_worlds(most), [&](World& all) {
    VerifiedRank rank(segments.front().config, num_channels, read, all, hooks, gathered, run);
    const auto own = static_cast<size_t>(all.rank());
    for (size_t i = 0; i < segments.size(); ++i)
      rank.train(segments[i], own < worlds[i].size() ? std::move(worlds[i][own]) : nullptr, i == 0,
                 i + 1 == segments.size());
  });
  run.first_weights = gathered.first_weights.whole();
  run.gradients = gathered.gradients.whole();
  run.weights = gathered.weights.whole();
  run.state = gathered.state.whole();
  return run;
}

VerifyRun run_layouts(std::vector<VerifySegment> segments, std::span<const Channel> channels) {
  const TrainConfig& train = segments.at(0).config.train;
  const BatchReader reader(channels, make_sampler(channels, train.seed, train.global_batch_size),
                           train.micro_batch_size);
  return run_layouts(
      std::move(segments), std::ssize(channels),
      [&](int64_t step, int64_t micro_batch, Batch& batch) { reader.read(step, micro_batch, batch); }, {});
}

VerifyRun run_layout(const Config& config, std::span<const Channel> channels, int64_t steps, int ranks) {
  return run_layouts({{.config = config, .ranks = ranks, .last_step = steps}}, channels);
}

VerifyRun run_layout(const Config& config, int64_t num_channels, const ReadMicroBatch& read, int64_t steps,
                     int ranks, const LayoutHooks& hooks) {
  return run_layouts({{.config = config, .ranks = ranks, .last_step = steps}}, num_channels, read, hooks);
}

}  // namespace athanor::verify
