#include "athanor/train/engine/setup.h"

#include <algorithm>
#include <utility>

#include "athanor/layout/stages.h"
#include "athanor/models/sharding.h"
#include "athanor/train/engine/compression_state.h"
#include "athanor/train/engine/param_slices.h"
#include "athanor/train/engine/replica_groups.h"

namespace athanor::train::engine {

bool packs_weights(const Config& config, int64_t micro_batches, int ranks) {
  constexpr int64_t kLeast = 4;  // micro-batches a rank; with fewer, packing costs as much as it saves
  return config.train.pack_weights && micro_batches / ranks >= kLeast;
}

Training::Training(const Config& config, const Layout& layout, const Groups& groups, Arena& arena_in,
                   const TrainingOptions& options)
    : compute(parse_dtype(config.precision.compute)),
      num_micro_batches(micro_batches_of_step(config.train)),
      arena(arena_in),
      model(make_model(config.model)),
      config_(config),
      layout_(layout),
      groups_(groups),
      is_server_(layout.is_server(groups.all->rank())),
      logs_(options.logs) {
  const OptimizerConfig& o = config.optimizer;
  optimizer_options_ = {.name = o.name,
                        .beta1 = o.betas[0],
                        .beta2 = o.betas[1],
                        .eps = o.eps,
                        .momentum = o.momentum,
                        .weight_decay = o.weight_decay};
  CompressionOptions compression = compression_of(config);
  if (layout.shard_degree > 0 && !layout.is_hybrid())
    compression.kind = Compression::none;  // a single shard group has no replicas
  parallel_options_ = {.reduce = layout.tree ? Reduce::tree : Reduce::fast,
                       .stage = layout.zero_stage,
                       .dtype = compute,
                       .bucket_bytes = config.parallel.bucket_bytes,
                       .trace = options.trace,
                       .clock = options.clock,
                       .step_part = groups.dense.average->rank(),
                       .num_step_parts = layout.local_sgd,
                       .exchange = compressed_exchange(compression)};
  outer_options_ = {.every = layout.dense.average_interval,
                    .lr = config.local_sgd.outer_lr,
                    .momentum = config.local_sgd.outer_momentum,
                    .code = config.local_sgd.compression == "bf16"   ? &bf16_code()
                            : config.local_sgd.compression == "int8" ? &int8_code()
                                                                     : nullptr,
                    .error_feedback = config.compression.error_feedback};
  step_options_ = {.schedule = lr_schedule(config),
                   .max_grad_norm = o.max_grad_norm,
                   .num_channels = options.num_channels,
                   .stop = options.stop,
                   .pass = {.num_micro_batches = num_micro_batches,
                            .pack_weights = packs_weights(config, num_micro_batches, layout.dp()),
                            .trace = options.trace,
                            .clock = options.clock},
                   .groups = {}};
  for (const auto& param : model->params()) step_options_.groups.declared.push_back(param.get());
  if (is_server_) return;
  if (layout.tp > 1)
    split_tensors(options.sharding ? *options.sharding : sharding_of(config.model, layout.sp));
  if (layout.experts.exists) split_experts();
  if (layout.cp > 1) split_sequences();
  if (layout.pp > 1) split_layers();
}

LrSchedule lr_schedule(const Config& config) {
  const ScheduleConfig& s = config.schedule;
  return {.decay = s.decay,
          .lr = config.optimizer.lr,
          .steps = config.train.steps,
          .warmup_steps = s.warmup_steps,
          .min_lr_ratio = s.min_lr_ratio,
          .decay_fraction = s.wsd_decay_fraction};
}

void Training::split_tensors(const Sharding& sharding) {
  shard_model(*model, sharding, *groups_.tensor);
  step_options_.groups.tensor = groups_.tensor;
}

void Training::split_experts() {
  if (layout_.ep > 1) {
    exchange_ = std::make_unique<ExpertParallel>(*groups_.experts);
    for (MoeLayer* layer : model->moe_layers()) exchange_->split(*layer);
  }
  step_options_.groups.experts = groups_.experts;
}

void Training::split_sequences() {
  context_ = std::make_unique<ContextParallel>(parse_context_kind(layout_.cp_method), config_.data.seq_len,
                                               *groups_.context);
  step_options_.pass.context = context_.get();
}

void Training::split_layers() {
  const std::vector<ModelPart> parts = cut_model(layout_.stage_layers);
  std::vector<ModelPart> kept;
  for (size_t stage = 0; stage < parts.size(); ++stage)
    if (layout_.rank_of_stage[stage] == groups_.pipeline->rank()) kept.push_back(parts[stage]);
  model->keep(kept);
  parallel_options_.section = [this, kept](const Weight& weight) {
    if (&weight == &model->head())
      return -1;  // a bucket of its own: the head's gradient is already complete in the forward pass
    const auto has = [&](const ModelPart& part) { return part.has(weight.use()); };
    return static_cast<int>(std::find_if(kept.begin(), kept.end(), has) - kept.begin());
  };
  step_options_.groups.pipeline = groups_.pipeline;
  if (groups_.pipeline_ends->size() > 1) step_options_.groups.ends = groups_.pipeline_ends;
}

// Which ranks sum gradients, hold shards of them, and take steps of their own.
DataParallelRanks Training::data_parallel_ranks() const {
  const auto ranks_of = [this](const ParameterGroups& groups, int parts) {
    return GradientRanks{.sum = groups.sum,
                         .shard = groups.shard,
                         .replicate = layout_.is_hybrid() ? groups.replicate : nullptr,
                         .parts = parts};
  };
  DataParallelRanks ranks{.dense = ranks_of(groups_.dense, layout_.cp)};
  if (layout_.experts.exists) ranks.experts = ranks_of(groups_.expert, layout_.expert_parts());
  return ranks;
}

int64_t Training::summed_micro_batches() const {
  if (client) return num_micro_batches;
  const auto [first, last] = parallel->summed_micro_batches(num_micro_batches);
  return last - first;
}

void Training::allocate(Env& env) {
  if (layout_.servers > 0) return allocate_served();
  host = host_memory(config_, arena.queue().device());
  if (const CompressionOptions c = compression_of(config_);
      c.kind == Compression::onebit_adam &&
      (groups_.dense.shard->size() > 1 || groups_.expert.shard->size() > 1)) {
    auto onebit = std::make_unique<OneBitAdam>(
        optimizer_options_, model->params(), [this](const Param& param) { return parallel->ranks_of(param); },
        c);
    onebit_ = onebit.get();
    optimizer = std::move(onebit);
  } else {
    optimizer = make_optimizer(optimizer_options_, model->params(),
                               optimizer_state_options(config_, env, host.get()));
  }
  parallel_options_.gradients_place = place_of(config_, config_.offload.gradients, env);
  parallel_options_.values_place = place_of(config_, config_.offload.parameters, env);
  parallel =
      std::make_unique<DataParallel>(model->weights(), data_parallel_ranks(), arena, parallel_options_);
  model->allocate(arena, compute, /*with_master=*/!keeps_masters_elsewhere(config_));
  optimizer->allocate(arena);
  parallel->allocate();
  outer_options_.copies = layout_.is_hybrid();
  if (layout_.dense.average_interval > 0) {
    const auto inner = [this](const ParameterGroups& groups) {
      return layout_.is_hybrid() ? groups.replicate : groups.sum;
    };
    outer = std::make_unique<OuterSync>(
        model->params(),
        OuterRanks{.inner = inner(groups_.dense),
                   .across = groups_.dense.average,
                   .expert_inner = layout_.experts.exists ? inner(groups_.expert) : nullptr},
        arena, outer_options_);
  }
  activations = activation_store(config_, env, arena, host.get());
  step_options_.pass.activations = activations.get();
  step_options_.weights = outer.get();
  make_pipeline();
  runner = std::make_unique<StepRunner>(*model, *optimizer, *parallel, *pipeline, *groups_.losses, arena,
                                        step_options_);
}

void Training::make_pipeline() {
  pipeline = std::make_unique<PipelineRunner>(
      *model, PipelineOptions{.parts = cut_model(layout_.stage_layers),
                              .schedule = [this](int count) { return pipeline_schedule(layout_, count); },
                              .group = groups_.pipeline,
                              .recompute = parse_recompute(layout_.recompute).value_or(RecomputePlan{}),
                              .token_ranks = layout_.sp ? layout_.tp : 1,
                              .trace = step_options_.pass.trace,
                              .clock = step_options_.pass.clock});
}

HeldOutPasses Training::held_out_passes() const {
  return {.sum_losses = [this](auto batches) { return pipeline->sum_losses(batches); },
          .at_a_time = pipeline->at_a_time(),
          .sums = groups_.losses};
}

std::vector<Optimizer::State> Training::states_of_optimizer() const {
  return optimizer ? optimizer->states() : std::vector<Optimizer::State>{};  // a worker has none
}

std::vector<ExchangeState> Training::exchange_states() const {
  if (onebit_ != nullptr) return onebit_->exchange_states();
  if (client) return client->exchange_states();
  return parallel ? parallel->exchange_states() : std::vector<ExchangeState>{};
}

std::string Training::prefix() const {
  return replica_prefix(outer.get());
}

void Training::initialize(uint64_t seed) {
  for (const auto& param : model->params())
    if (keeps(*param)) param->initialize(seed);
}

std::vector<NamedTensor> Training::tensors() const {
  std::vector<NamedTensor> tensors;
  const std::string own = prefix();
  for (const auto& param : model->params())
    if (keeps(*param))
      add_slices(tensors, own + "model", *param,
                 KeptElements{param->resident_master(),
                              [p = param.get()](int64_t first, int64_t count, float* values) {
                                p->read_master(first, count, values);
                              }});
  for (const auto& state : states_of_optimizer())
    add_slices(tensors, own + state.name, *state.param,
               KeptElements{state.tensor, [state](int64_t first, int64_t count, float* values) {
                              state.read(first, count, values);
                            }});
  if (outer) add_outer(tensors, *outer, model->params());
  add_compression(tensors, exchange_states(), own);
  return tensors;
}

void Training::load(const Checkpoint& checkpoint) {
  if (parallel) parallel->settle();  // an all-gather of publish() still reads the parameters
  if (client) client->settle();
  const std::string own = replica_prefix(checkpoint, outer.get(), *model->params().front());
  for (const auto& param : model->params())
    if (keeps(*param)) param->store_kept(read_slices(checkpoint, own + "model", *param).data());
  for (const auto& state : states_of_optimizer()) {
    const std::vector<float> values = read_slices(checkpoint, own + state.name, *state.param);
    state.write(values.data(), static_cast<int64_t>(values.size()));
  }
  if (outer) load_outer(checkpoint, *outer);
  // Residuals have the scale of their replica group's gradient, so those of a run without replica groups do not fit.
  load_compression(checkpoint, exchange_states(), own.empty() ? prefix() : own);
}

TrainState first_state(const Config& config) {
  TrainState state;
  state.seed = config.train.seed;
  if (config.precision.compute == "f16")
    state.loss_scale = {.scale = config.precision.loss_scale,
                        .good_steps = 0,
                        .dynamic = true,
                        .window = config.precision.loss_scale_window};
  return state;
}

}  // namespace athanor::train::engine
