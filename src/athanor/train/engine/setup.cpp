#include "athanor/train/engine/setup.h"

#include <algorithm>
#include <utility>

#include "athanor/train/engine/compression_state.h"
#include "athanor/train/engine/param_slices.h"
#include "athanor/train/engine/replica_groups.h"

namespace athanor::train::engine {

bool packs_weights(const Config& config, int64_t micro_batches, int ranks) {
  constexpr int64_t kLeast = 4;  // micro-batches a rank; with fewer, packing costs as much as it saves
  return config.train.pack_weights && micro_batches / ranks >= kLeast;
}

Training::Training(const Config& config, int64_t num_channels, Group& group, Arena& arena_in, Trace* trace,
                   const std::atomic<int>* stop, const std::function<double()>& clock)
    : compute(parse_dtype(config.precision.compute)),
      num_micro_batches(micro_batches_of_step(config.train)),
      arena(arena_in),
      model(make_model(config.model)),
      config_(config),
      group_(group) {
  const OptimizerConfig& o = config.optimizer;
  optimizer_options_ = {.name = o.name,
                        .beta1 = o.betas[0],
                        .beta2 = o.betas[1],
                        .eps = o.eps,
                        .momentum = o.momentum,
                        .weight_decay = o.weight_decay};
  parallel_options_ = {.reduce = config.parallel.reduce == "tree" ? Reduce::tree : Reduce::fast,
                       .stage = static_cast<int>(config.parallel.zero_stage),
                       .dtype = compute,
                       .bucket_bytes = config.parallel.bucket_bytes,
                       .trace = trace,
                       .clock = clock,
                       .compression = compression_of(config)};
  outer_options_ = {.every = config.local_sgd.sync_interval,
                    .lr = config.local_sgd.outer_lr,
                    .momentum = config.local_sgd.outer_momentum,
                    .code = config.local_sgd.compression == "bf16"   ? &bf16_code()
                            : config.local_sgd.compression == "int8" ? &int8_code()
                                                                     : nullptr,
                    .error_feedback = config.compression.error_feedback};
  recompute_ = parse_recompute(config.parallel.recompute).value_or(RecomputePlan{});
  const int sharing = std::max(1, group.size() / static_cast<int>(config.parallel.cp));  // the micro-batches
  step_options_ = {.schedule = lr_schedule(config),
                   .max_grad_norm = o.max_grad_norm,
                   .num_channels = num_channels,
                   .stop = stop,
                   .pass = {.num_micro_batches = num_micro_batches,
                            .pack_weights = packs_weights(config, num_micro_batches, sharing),
                            .trace = trace,
                            .clock = clock},
                   .groups = {}};
  for (const auto& param : model->params()) step_options_.groups.declared.push_back(param.get());
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

Group& data_group(Mesh& mesh) {
  const int ranks = mesh.size(Axis::dp) * mesh.size(Axis::cp);
  return ranks == mesh.world().size() ? mesh.world().all() : mesh.group({Axis::dp, Axis::cp});
}

void Training::lay_out(Mesh& mesh) {
  if (places_ != nullptr && places_->serves()) return;
  if (mesh.size(Axis::tp) > 1) split(sharding_of(config_.model, config_.parallel.sp), mesh.group(Axis::tp));
  const bool experts_apart = sums_experts_apart(config_, mesh.shape());
  if (config_.local_sgd.sync_interval > 0) {
    const auto ranks = static_cast<int>(config_.local_sgd.group_size);
    ReplicaGroups groups = make_replica_groups(mesh.world(), mesh.shape(), ranks);
    if (experts_apart) groups.experts = make_replica_group_experts(mesh.world(), mesh.shape(), ranks);
    split_replica_groups(std::move(groups));
  }
  if (experts_apart)
    split_experts(mesh.group(Axis::ep),
                  replica_groups_.experts ? *replica_groups_.experts : mesh.group(Axis::edp),
                  mesh.shape().expert_parts());
  share_sequences(mesh.group(Axis::cp));
  const int of_replica_group =
      replica_groups_.inner != nullptr ? static_cast<int>(config_.local_sgd.group_size) : mesh.size(Axis::dp);
  const auto of_set = static_cast<int>(config_.parallel.shard_degree);
  if (config_.parallel.load_balance == "speed")
    dealers_ = make_load_balancers(mesh.world(), mesh.shape(), of_replica_group);
  if (of_set > 0 && of_set < of_replica_group)
    share_shards(make_replica_groups(mesh.world(), mesh.shape(), of_set, "set of shards", of_replica_group),
                 experts_apart ? make_expert_shards(mesh.world(), mesh.shape(), of_set, of_replica_group)
                               : ReplicaGroups{});
  else if (of_set > 0)
    parallel_options_.compression.kind = Compression::none;  // a single shard group has no replicas
  if (mesh.size(Axis::pp) == 1) return;
  const std::vector<int> ranks = mesh.shape().peers(mesh.world().rank(), {Axis::pp});
  const Schedule schedule = pipeline_schedule(config_, 1);
  const auto [first, last] = std::minmax(schedule.rank_of_stage.front(), schedule.rank_of_stage.back());
  const int own = mesh.coordinate(Axis::pp);
  if (config_.model.tie_word_embeddings && first != last && (own == first || own == last))
    ends_ = mesh.world().make_group({ranks[static_cast<size_t>(first)], ranks[static_cast<size_t>(last)]},
                                    "ends of the pipeline");
  cut(mesh.group(Axis::pp), ends_.get(), mesh.group({Axis::pp, Axis::dp, Axis::cp}));
}

void Training::share_sequences(Group& context_group) {
  if (context_group.size() == 1) return;
  context_ = std::make_unique<ContextParallel>(parse_context_kind(config_.parallel.cp_method),
                                               config_.data.seq_len, context_group);
  step_options_.pass.context = context_.get();
  parallel_options_.parts = context_group.size();
}

void Training::split(const Sharding& sharding, Group& tensor_group) {
  shard_model(*model, sharding, tensor_group);
  step_options_.groups.tensor = &tensor_group;
}

void Training::split_experts(Group& experts, Group& copies, int parts) {
  if (experts.size() > 1) {
    exchange_ = std::make_unique<ExpertParallel>(experts);
    for (MoeLayer* layer : model->moe_layers()) exchange_->split(*layer);
  }
  step_options_.groups.experts = &experts;
  parallel_options_.expert_group = &copies;
  parallel_options_.expert_parts = parts;
}

void Training::cut(Group& pipeline_group, Group* ends, Group& losses) {
  const Schedule schedule = pipeline_schedule(config_, 1);
  parts_ = pipeline_parts(config_, schedule);
  std::vector<ModelPart> kept;
  for (const int stage : schedule.stages_of(pipeline_group.rank()))
    kept.push_back(parts_[static_cast<size_t>(stage)]);
  model->keep(kept);
  parallel_options_.section = [this, kept](const Weight& weight) {
    if (&weight == &model->head())
      return -1;  // a bucket of its own: the head's gradient is already complete in the forward pass
    const auto has = [&](const ModelPart& part) { return part.has(weight.use()); };
    return static_cast<int>(std::find_if(kept.begin(), kept.end(), has) - kept.begin());
  };
  step_options_.groups.pipeline = &pipeline_group;
  step_options_.groups.ends = ends;
  losses_ = &losses;
}

void Training::share_shards(ReplicaGroups groups, ReplicaGroups expert_groups) {
  shards_ = std::move(groups);
  parallel_options_.across = shards_.across.get();
  parallel_options_.all = &replica_group();
  if (expert_groups.inner == nullptr) return;
  expert_shards_ = std::move(expert_groups);
  parallel_options_.expert_all = std::exchange(parallel_options_.expert_group, expert_shards_.inner.get());
  parallel_options_.expert_across = expert_shards_.across.get();
}

void Training::split_replica_groups(ReplicaGroups groups) {
  replica_groups_ = std::move(groups);
  parallel_options_.replica_group = replica_groups_.across->rank();
  parallel_options_.num_replica_groups = replica_groups_.across->size();
}

int64_t Training::micro_batches_of_replica_group() const {
  if (client) return num_micro_batches;
  const auto [first, last] = parallel->summed_micro_batches(num_micro_batches);
  return last - first;
}

void Training::allocate(Env& env) {
  if (places_ != nullptr) return allocate_served();
  host = host_memory(config_, arena.queue().device());
  Group* experts = parallel_options_.expert_group;
  Group& sharing = shards_.inner != nullptr ? *shards_.inner : replica_group();
  if (const CompressionOptions c = parallel_options_.compression;
      c.kind == Compression::onebit_adam &&
      (sharing.size() > 1 || (experts != nullptr && experts->size() > 1))) {
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
  parallel = std::make_unique<DataParallel>(model->weights(), sharing, arena, parallel_options_);
  model->allocate(arena, compute, /*with_master=*/!keeps_masters_elsewhere(config_));
  optimizer->allocate(arena);
  parallel->allocate();
  outer_options_.expert_group = expert_shards_.across != nullptr ? expert_shards_.across.get() : experts;
  outer_options_.copies = shards_.across != nullptr;
  if (replica_groups_.inner != nullptr)
    outer = std::make_unique<OuterSync>(model->params(),
                                        shards_.across != nullptr ? *shards_.across : *replica_groups_.inner,
                                        *replica_groups_.across, arena, outer_options_);
  activations = activation_store(config_, env, arena, host.get());
  step_options_.pass.activations = activations.get();
  step_options_.outer = outer.get();
  make_pipeline();
  runner = std::make_unique<StepRunner>(*model, *optimizer, *parallel, *pipeline,
                                        losses_ != nullptr ? *losses_ : group_, arena, step_options_);
}

// Without cut(): one stage, the whole model, on a group of one.
void Training::make_pipeline() {
  PipelineOptions options{.parts = parts_,
                          .schedule = [this](int count) { return pipeline_schedule(config_, count); },
                          .group = step_options_.groups.pipeline,
                          .recompute = recompute_,
                          .trace = step_options_.pass.trace,
                          .clock = step_options_.pass.clock};
  if (options.group == nullptr) {
    alone_ = make_single_group("pipeline");
    options.group = alone_.get();
    options.parts = cut_model({config_.model.num_hidden_layers});
    options.schedule = [](int count) { return make_schedule("1f1b", {.micro_batches = count}); };
  }
  if (const Group* tensors = step_options_.groups.tensor; config_.parallel.sp && tensors != nullptr)
    options.token_ranks = tensors->size();
  pipeline = std::make_unique<PipelineRunner>(*model, std::move(options));
}

HeldOutPasses Training::held_out_passes() const {
  return {.sum_losses = [this](auto batches) { return pipeline->sum_losses(batches); },
          .at_a_time = pipeline->at_a_time(),
          .sums = losses_};
}

std::vector<Optimizer::State> Training::states_of_optimizer() const {
  return optimizer ? optimizer->states() : std::vector<Optimizer::State>{};  // a worker has none
}

std::vector<CompressionState> Training::compression_states() const {
  if (onebit_ != nullptr) return onebit_->compression_states();
  if (client) return client->compression_states();
  return parallel ? parallel->compression_states() : std::vector<CompressionState>{};
}

void Training::initialize(uint64_t seed) {
  for (const auto& param : model->params())
    if (keeps(*param)) param->initialize(seed);
}

std::vector<NamedTensor> Training::tensors() const {
  std::vector<NamedTensor> tensors;
  const std::string own = replica_prefix(outer.get());
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
  add_compression(tensors, compression_states(), own);
  return tensors;
}

void Training::load(const Checkpoint& checkpoint) {
  const std::string own = replica_prefix(checkpoint, outer.get(), *model->params().front());
  for (const auto& param : model->params())
    if (keeps(*param)) param->store_kept(read_slices(checkpoint, own + "model", *param).data());
  for (const auto& state : states_of_optimizer()) {
    const std::vector<float> values = read_slices(checkpoint, own + state.name, *state.param);
    state.write(values.data(), static_cast<int64_t>(values.size()));
  }
  if (outer) load_outer(checkpoint, *outer);
  // Residuals have the scale of their replica group's gradient, so those of a run without replica groups do not fit.
  load_compression(checkpoint, compression_states(), own.empty() ? replica_prefix(outer.get()) : own);
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
