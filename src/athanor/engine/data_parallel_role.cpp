#include "athanor/engine/data_parallel_role.h"

#include "athanor/engine/compression_state.h"

namespace athanor::engine {
namespace {

GradientRanks ranks_of(const Layout& layout, const ParameterGroups& groups, int parts) {
  return {.sum = groups.sum,
          .shard = groups.shard,
          .replicate = layout.is_hybrid() ? groups.replicate : nullptr,
          .parts = parts};
}

// Which ranks sum gradients, hold shards of them, and take steps of their own.
DataParallelRanks data_parallel_ranks(const Layout& layout, const Groups& groups) {
  DataParallelRanks ranks{.dense = ranks_of(layout, groups.dense, layout.cp)};
  if (layout.experts.exists) ranks.experts = ranks_of(layout, groups.expert, layout.expert_parts());
  return ranks;
}

OuterRanks outer_ranks(const Layout& layout, const Groups& groups) {
  const auto inner = [&](const ParameterGroups& ranks) {
    return layout.is_hybrid() ? ranks.replicate : ranks.sum;
  };
  return {.inner = inner(groups.dense),
          .across = groups.dense.average,
          .expert_inner = layout.experts.exists ? inner(groups.expert) : nullptr};
}

// Whether tensor parallelism partitions the parameter's elements. A stack is partitioned between matrices only.
bool is_in_parts(const ParamSpec& param) {
  return !param.is_stack() && (param.part(0).size > 1 || (param.is_matrix() && param.part(1).size > 1));
}

}  // namespace

DataParallelRole::DataParallelRole(const Declared& declared, Env& env, HostMemory* host) {
  const Config& config = declared.config;
  const Layout& layout = declared.layout;
  const Groups& groups = declared.groups;
  Model& model = declared.model;
  Arena& arena = declared.arena;
  make_optimizer_of(declared, env, host);
  DataParallelOptions options = declared.parallel;
  options.gradients_place = place_of(config, config.offload.gradients, env);
  options.values_place = place_of(config, config.offload.parameters, env);
  parallel_ =
      std::make_unique<DataParallel>(model.weights(), data_parallel_ranks(layout, groups), arena, options);
  model.allocate(arena, declared.parallel.dtype, /*with_master=*/!keeps_masters_elsewhere(config),
                 updates_out_of_place() ? declared.step.slots : nullptr);
  optimizer_->allocate(arena);
  parallel_->allocate();
  if (layout.dense.average_interval > 0)
    outer_ = std::make_unique<OuterSync>(model.params(), outer_ranks(layout, groups), arena, declared.outer);
  activations_ = activation_store(config, env, arena, host);
  pipeline_ = make_pipeline(declared);
  StepOptions step = declared.step;
  step.pass.activations = activations_.get();
  step.weights = outer_.get();
  runner_ = std::make_unique<StepRunner>(model, *optimizer_, *parallel_, *pipeline_, *groups.losses,
                                         *groups.role, arena, std::move(step));
}

void DataParallelRole::make_optimizer_of(const Declared& declared, Env& env, HostMemory* host) {
  const auto& params = declared.model.params();
  const CompressionOptions compression = compression_of(declared.config);
  const bool sums = declared.groups.dense.shard->size() > 1 || declared.groups.expert.shard->size() > 1;
  if (compression.kind == Compression::onebit_adam && sums) {
    auto onebit = std::make_unique<OneBitAdam>(
        declared.optimizer, params, [this](const Param& param) { return parallel_->ranks_of(param); },
        compression);
    onebit_ = onebit.get();
    optimizer_ = std::move(onebit);
  } else {
    OptimizerStateOptions options = optimizer_state_options(declared.config, env, host);
    options.home = declared.step.slots;
    optimizer_ = make_optimizer(declared.optimizer, params, std::move(options),
                                [this, tensor = declared.groups.tensor](const Param& param) {
                                  const ParamRanks ranks = parallel_->ranks_of(param);
                                  return TensorRanks{.shards = ranks.pieces.empty() ? nullptr : ranks.group,
                                                     .parts = is_in_parts(param) ? tensor : nullptr};
                                });
  }
}

void DataParallelRole::publish(const TrainState&) {
  if (outer_) outer_->begin();
  parallel_->publish();
}

int64_t DataParallelRole::summed_micro_batches(int64_t of_step) const {
  const auto [first, last] = parallel_->summed_micro_batches(of_step);
  return last - first;
}

std::vector<ExchangeState> DataParallelRole::exchange_states() const {
  return onebit_ != nullptr ? onebit_->exchange_states() : parallel_->exchange_states();
}

}  // namespace athanor::engine
