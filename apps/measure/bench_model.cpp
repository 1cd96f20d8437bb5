#include "bench_model.h"

#include <cmath>

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/base/shared_memory.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/engine/device.h"

namespace athanor::apps {
namespace {

constexpr int64_t kMostTokens = int64_t{1}
                                << 28;  // the memory plan of a step runs all its kernels on nothing

// As training would run it: with the recompute policy that its budget asks for.
MemoryPlan checked_plan(const Config& config, int64_t num_channels, Queue& queue) {
  validate(config);
  const Layout layout = make_layout(config, {.world_size = 1});
  return plan_that_fits({.config = config,
                         .num_channels = num_channels,
                         .layout = layout,
                         .snapshot = choose_snapshot(config, layout, /*is_launched=*/false),
                         .device_bytes = free_device_bytes(queue)},
                        1);
}

std::unique_ptr<SnapshotSlots> open_slots(const SnapshotPlan& plan, Arena& arena) {
  if (plan.mode == SnapshotMode::off) return nullptr;
  return std::make_unique<SnapshotSlots>(plan, arena, map_shared_memory(plan.size_bytes()),
                                         SlotIdentity{.run = "bench", .layout = "bench"});
}

}  // namespace

Config bench_config(const std::string& preset, int64_t batch, int64_t seq, int64_t steps) {
  if (batch > kMostTokens / seq)
    throw ConfigError(fmt::format("--batch x --seq: got {} x {}, expected at most {} tokens in a step", batch,
                                  seq, kMostTokens));
  Config config;
  config.model = preset_model(preset);
  config.model.max_position_embeddings = std::max(config.model.max_position_embeddings, seq);
  config.data.seq_len = seq;
  config.train.global_batch_size = config.train.micro_batch_size = batch;
  config.train.steps = steps;
  return config;
}

BenchModel::BenchModel(const Config& config, Queue& queue, int64_t num_channels)
    : config_(config),
      arena_(queue),
      plan_(checked_plan(config, num_channels, queue)),
      world_(make_single_world()),
      groups_(plan_.layout, *world_),
      slots_(open_slots(plan_.slots, arena_)),
      training_(config_, plan_.layout, groups_, arena_,
                {.num_channels = num_channels, .slots = slots_.get()}),
      state_(first_state(config_)) {
  training_.allocate();
  training_.model->initialize(1);
  training_.keep_first(state_);
}

Batch BenchModel::random_batch(int64_t step) const {
  const int64_t count = config_.train.micro_batch_size, length = config_.data.seq_len;
  Batch batch;
  batch.step = step;
  batch.num_sequences = count;
  batch.seq_len = length;
  const RandomStream stream(1, "bench");
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count * (length + 1); ++i)
    ids.push_back(static_cast<int32_t>(stream.word(static_cast<uint64_t>(i), static_cast<uint64_t>(step)) %
                                       static_cast<uint64_t>(config_.model.vocab_size)));
  for (int64_t b = 0; b < count; ++b) {
    const auto row = ids.begin() + b * (length + 1);
    batch.tokens.insert(batch.tokens.end(), row, row + length);
    batch.targets.insert(batch.targets.end(), row + 1, row + length + 1);
    batch.channel_of.push_back(0);
  }
  return batch;
}

StepResult BenchModel::step(const Batch& batch) {
  return step([&]() -> const Batch& { return batch; });
}

StepResult BenchModel::step(const std::function<const Batch&()>& next_batch) {
  StepResult result = training_.role->step(state_, next_batch).or_throw();
  check(std::isfinite(result.loss) && std::isfinite(result.grad_norm),
        "bench: loss {} or norm {} of step {} is not finite", result.loss, result.grad_norm, state_.step);
  return result;
}

void BenchModel::check_first(const StepResult& result) const {
  const double guessing = std::log(static_cast<double>(config_.model.vocab_size));
  check(std::abs(result.loss - guessing) < 1.0, "bench: the first loss is {}, expected about {}", result.loss,
        guessing);
}

double BenchModel::flops_per_token() const {
  return training_.model->flops_per_token(config_.data.seq_len);
}

}  // namespace athanor::apps
