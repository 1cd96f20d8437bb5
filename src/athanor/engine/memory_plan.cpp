#include "athanor/engine/memory_plan.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/snapshot.h"
#include "athanor/comm/null.h"
#include "athanor/comm/tree.h"
#include "athanor/config/recompute.h"
#include "athanor/engine/load_balance_plan.h"
#include "athanor/engine/setup.h"
#include "athanor/kernels/table.h"
#include "athanor/parallel/data/pass_plan.h"

namespace athanor::engine {
namespace {

// Micro-batches need the same memory, so a few of them are enough. With the fixed tree, halving their number removes
// one level of the tree and one gradient buffer.
constexpr int64_t kPlannedMicroBatches = 4, kPlannedTreeMicroBatches = 64;
constexpr int64_t kMaxMicroBatches = int64_t{1} << 20;

void run_steps(Training& training, const Config& config, const PlannedShares& shares) {
  // Two steps of each kind: the second one meets the state that the first left behind.
  TrainState state;
  state.step = config.schedule.first_step - 1;
  const int64_t micro = config.train.micro_batch_size, length = config.data.seq_len;
  Batch batch;
  for (size_t step = 0; step < 2 + 2 * shares.count(); ++step) {
    if (step >= 2) shares.use(step / 2 - 1);
    const std::vector<int64_t> micro_batches = training.own_micro_batches();
    auto micro_batch = micro_batches.begin();
    training.role->step(state, [&]() -> const Batch& {
      batch.num_sequences = std::min(micro, config.train.global_batch_size - *micro_batch++ * micro);
      batch.seq_len = length;
      if (config.data.document_mask)
        batch.document_starts.resize(static_cast<size_t>(batch.num_sequences * length));
      return batch;
    });
  }
}

uint64_t needed_bytes(const MemoryPlan& plan) {
  return std::max(plan.usage.peak_total, plan.usage.reserved_total);
}

std::string size_text(uint64_t size_bytes) {
  return fmt::format("{} ({})", human_bytes(static_cast<double>(size_bytes)), size_bytes);
}

Layout layout_of(const PlanRequest& request) {
  return request.layout ? *request.layout : make_layout(request.config, {.world_size = request.world_size});
}

MemoryPlan plan_with(const PlanRequest& request, const RecomputePlan& recompute) {
  PlanRequest with = request;
  with.layout = layout_of(request);
  with.layout->recompute = str(recompute);
  return plan_memory(with);
}

// Candidate number 0 is no recompute at all; each further one takes less memory and more time.
RecomputePlan candidate(int64_t index, int64_t layers) {
  const RecomputePart selective{Recompute::selective, 1, 0};
  if (index == 0) return {{Recompute::none, 1, 0}};
  if (index == layers) return {selective};
  if (index == 2 * layers) return {{Recompute::full, 1, 0}};
  if (index < layers) return {{Recompute::selective, 1, index}, {Recompute::none, 1, 0}};
  return {{Recompute::full, 1, index - layers}, selective};
}

struct Choice {
  MemoryPlan plan;
  bool fits;
};

// The first candidate that fits, or the one that needs least.
Choice choose_recompute(const PlanRequest& request, uint64_t budget) {
  const int64_t layers = request.config.model.num_hidden_layers;
  const auto fits = [&](const MemoryPlan& plan) { return plan.complete && needed_bytes(plan) <= budget; };
  int64_t low = 0, high = 2 * layers;
  MemoryPlan best = plan_with(request, candidate(high, layers));
  if (fits(best)) {
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      MemoryPlan plan = plan_with(request, candidate(middle, layers));
      if (fits(plan)) {
        best = std::move(plan);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return {std::move(best), true};
  }
  // A larger group keeps fewer inputs and recomputes more at once; beyond sqrt(depth) the need grows again.
  for (int64_t group = 2; group * group <= 4 * layers && group <= layers; ++group) {
    MemoryPlan plan = plan_with(request, {{Recompute::full, group, 0}});
    if (fits(plan)) return {std::move(plan), true};
    if (needed_bytes(plan) < needed_bytes(best)) best = std::move(plan);
  }
  return {std::move(best), false};
}

}  // namespace

SnapshotPlan plan_snapshot(const Config& config, const Layout& layout, int rank,
                           const SnapshotChoice& choice) {
  if (choice.mode == SnapshotMode::off) return {};
  const auto queue = make_null_queue(Isa::generic);
  const auto world = make_null_world(rank, layout.world_size());
  const Groups groups(layout, *world);
  Arena arena(*queue);
  Training training(config, layout, groups, arena, {});
  training.allocate();
  return {.mode = choice.mode,
          .every_steps = config.snapshot.every_steps,
          .num_slots = choice.num_slots,
          .tensors = training.snapshot_tensors(),
          .own = training.prefix()};
}

MemoryPlan plan_memory(const PlanRequest& request) {
  MemoryPlan plan{.request = request, .layout = layout_of(request)};
  Config config = request.config;
  const auto queue = make_null_queue(config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
  const auto world = make_null_world(request.rank, plan.layout.world_size());
  Layout layout = plan.layout;
  const Groups groups(layout, *world);
  const bool trains = layout.trains(request.rank);
  const int data_ranks = trains ? layout.dp() : 1, data_rank = trains ? groups.data->rank() / layout.cp : 0;

  const int64_t micro = config.train.micro_batch_size;
  int64_t micro_batches = (config.train.global_batch_size + micro - 1) / micro;
  if (micro_batches > kMaxMicroBatches)
    throw ConfigError(
        fmt::format(
            "train.global_batch_size: got {} sequences in {} micro-batches of {}, expected at most {} "
            "micro-batches a step",
            config.train.global_batch_size, micro_batches, micro, kMaxMicroBatches),
        "raise train.micro_batch_size");
  if (trains && data_ranks <= micro_batches) {
    const LeafRange range = micro_batches_of_rank(micro_batches, data_ranks, data_rank);
    plan.num_micro_batches = range.second - range.first;
  }
  const bool packs = packs_weights(config, micro_batches, data_ranks);
  config.compression.warmup_steps = 0;  // its steps need less
  for (ParameterGroup* group : {&layout.dense, &layout.experts})
    group->average_interval = std::min<int64_t>(group->average_interval, 1);
  const bool tree = layout.tree;
  // A pipeline holds activations of several micro-batches at a time, so all are planned.
  const int64_t planned =
      layout.pp > 1 ? micro_batches : (tree ? kPlannedTreeMicroBatches : kPlannedMicroBatches) * data_ranks;
  const int64_t all_micro_batches = micro_batches;
  uint64_t left_out = 0;  // gradient buffers that the shorter step does not have; later bytes
  for (; micro_batches > planned; micro_batches = (micro_batches + 1) / 2) {
    config.train.global_batch_size = (micro_batches + 1) / 2 * micro;
    left_out += tree ? 1 : 0;
  }

  Arena arena(*queue, request.stop_bytes);
  try {
    std::optional<Tensor> before;
    std::optional<SnapshotSlots> slots;
    const bool on_device = config.train.device == "cuda";  // whose snapshots are in host memory
    if (request.snapshot_before_bytes > 0 && !on_device)
      before =
          empty(arena, {static_cast<int64_t>(request.snapshot_before_bytes)}, Dtype::u8, Category::snapshot);
    if (request.snapshot.mode != SnapshotMode::off) {
      plan.slots = plan_snapshot(request.config, plan.layout, request.rank, request.snapshot);
      slots.emplace(plan.slots, arena, nullptr, SlotIdentity{});
    }
    Training training(config, layout, groups, arena,
                      {.num_channels = request.num_channels, .slots = slots ? &*slots : nullptr});
    training.pack_weights(packs);
    training.allocate();
    training.keep_first({});
    before.reset();
    const PlannedShares shares(training, micro_batches);
    if (shares.count() > 0)
      left_out =
          static_cast<uint64_t>(PlannedShares(training, all_micro_batches).buffers() - shares.buffers());
    if (trains)
      run_steps(training, config, shares);
    else
      training.role->rehearse();
    left_out *= trains ? training.role->gradients()->buffer_bytes() : 0;
    if (training.host) plan.host_bytes = training.host->arena.usage().peak_total;
    if (request.snapshot_after) {
      Arena host(*queue);
      Arena& holder = on_device ? host : arena;
      const Snapshot after({.step = 0, .state = "", .tensors = training.tensors(), .files = {}}, holder);
      plan.snapshot_bytes = holder.usage().current[static_cast<size_t>(Category::snapshot)];
      if (on_device) plan.host_bytes += plan.snapshot_bytes;
    }
  } catch (const OverLimit&) {
    plan.complete = false;
  }
  plan.usage = arena.usage();
  plan.usage.peak[static_cast<size_t>(Category::gradients)] += left_out;
  plan.usage.peak_total += left_out;
  plan.usage.reserved_total += left_out;
  return plan;
}

MemoryPlan plan_recompute(const PlanRequest& request) {
  const auto budget = static_cast<uint64_t>(request.config.parallel.recompute_budget);
  if (budget == 0) return plan_memory(request);
  Choice choice = choose_recompute(request, budget);
  if (!choice.fits)
    throw ConfigError(
        fmt::format("parallel.recompute_budget: got {}, expected {} {}", size_text(budget),
                    choice.plan.complete ? "at least" : "more than", size_text(needed_bytes(choice.plan))),
        "that is what a rank needs with parallel.recompute = \"" + choice.plan.layout.recompute +
            "\"; a smaller train.micro_batch_size needs less");
  return std::move(choice.plan);
}

namespace {

// Settings that would lower the need and that this run does not use yet.
std::string ways_to_fit(const MemoryPlan& plan) {
  const Config& config = plan.request.config;
  const bool updates_elsewhere = plan.layout.training_ranks() < plan.layout.world_size();
  std::string ways;
  const auto add = [&](bool is_there, const char* way) {
    if (!is_there) ways += std::string(way) + ", ";
  };
  add(config.train.micro_batch_size == 1, "train.micro_batch_size = 1");
  add(config.parallel.zero_stage == 3 || plan.request.world_size == 1 || updates_elsewhere,
      "parallel.zero_stage = 3 (weights, gradients and optimizer state are sharded)");
  add(config.optimizer.state == "8bit" || updates_elsewhere, "optimizer.state = \"8bit\"");
  add(config.offload.optimizer != "memory" || updates_elsewhere, "offload.optimizer = \"disk\"");
  return "no parallel.recompute policy fits; what needs less: " + ways +
         "a shorter data.seq_len, a smaller model";
}

}  // namespace

void check_fits(const MemoryPlan& plan, int num_ranks, uint64_t available_bytes) {
  const double needed = static_cast<double>(plan.usage.peak_total) * num_ranks;
  if (available_bytes == 0 || (plan.complete && needed <= static_cast<double>(available_bytes))) return;
  std::string parts;
  for (int i = 0; i < kNumCategories; ++i)
    if (const uint64_t peak = plan.usage.peak[static_cast<size_t>(i)]; peak > 0)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(static_cast<Category>(i)),
                           human_bytes(static_cast<double>(peak)));
  const Choice choice = choose_recompute(plan.request, available_bytes / static_cast<uint64_t>(num_ranks));
  const std::string hint =
      choice.fits ? fmt::format("parallel.recompute = \"{}\" would fit", choice.plan.layout.recompute)
                  : ways_to_fit(plan);
  throw Error(
      fmt::format("not enough memory: this run needs {}{} ({} rank{} with {}), {} are available",
                  plan.complete ? "" : "more than ", human_bytes(needed), num_ranks,
                  num_ranks == 1 ? "" : "s", parts, human_bytes(static_cast<double>(available_bytes))),
      hint);
}

MemoryPlan plan_that_fits(PlanRequest request, int num_ranks) {
  constexpr uint64_t kAbsurd = 16;  // beyond this many times the free memory the exact need does not matter
  const bool has_device = request.device_bytes > 0;
  const uint64_t available = has_device ? request.device_bytes : available_memory_bytes();
  request.stop_bytes = kAbsurd * available;
  MemoryPlan plan = plan_recompute(request);
  check_fits(plan, has_device ? 1 : num_ranks, available);
  return plan;
}

}  // namespace athanor::engine
