#include "athanor/engine/setup.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "athanor/engine/compression_state.h"
#include "athanor/engine/param_slices.h"
#include "athanor/engine/replica_groups.h"
#include "athanor/layout/stages.h"
#include "athanor/models/sharding.h"

namespace athanor::engine {
namespace {

OptimizerOptions optimizer_options(const OptimizerConfig& o) {
  OptimizerOptions options{.name = o.name,
                           .beta1 = o.betas[0],
                           .beta2 = o.betas[1],
                           .eps = o.eps,
                           .bias_correction = o.bias_correction,
                           .momentum = o.momentum,
                           .weight_decay = o.weight_decay};
  for (const OptimizerGroupConfig& group : o.group)
    options.groups.push_back(
        {.match = group.match,
         .lr_ratio = group.lr_ratio,
         .weight_decay = group.weight_decay < 0 ? std::nullopt : std::optional(group.weight_decay)});
  return options;
}

std::vector<std::string> trained_names(const Model& model) {
  std::vector<std::string> names;
  for (const auto& param : model.params())
    if (!param->is_state()) names.push_back(param->name());
  return names;
}

CompressionOptions exchange_of(const Config& config, const Layout& layout) {
  CompressionOptions compression = compression_of(config);
  if (layout.shard_degree > 0 && !layout.is_hybrid())
    compression.kind = Compression::none;  // a single shard group has no replicas
  return compression;
}

OuterOptions outer_options(const Config& config, const Layout& layout) {
  OuterOptions options{.every = layout.dense.average_interval,
                       .lr = config.local_sgd.outer_lr,
                       .momentum = config.local_sgd.outer_momentum,
                       .code = config.local_sgd.compression == "bf16"   ? &bf16_code()
                               : config.local_sgd.compression == "int8" ? &int8_code()
                                                                        : nullptr,
                       .error_feedback = config.compression.error_feedback};
  options.copies = layout.is_hybrid();
  return options;
}

}  // namespace

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
      declared_{.config = config,
                .layout = layout,
                .groups = groups,
                .arena = arena,
                .model = *model,
                .optimizer = optimizer_options(config.optimizer),
                .parallel = {.reduce = layout.tree ? Reduce::tree : Reduce::fast,
                             .stage = layout.zero_stage,
                             .dtype = compute,
                             .bucket_bytes = config.parallel.bucket_bytes,
                             .trace = options.trace,
                             .clock = options.clock,
                             .step_part = groups.dense.average->rank(),
                             .num_step_parts = layout.local_sgd,
                             .exchange = compressed_exchange(exchange_of(config, layout))},
                .outer = outer_options(config, layout),
                .step = {.schedule = lr_schedule(config),
                         .max_grad_norm = config.optimizer.max_grad_norm,
                         .num_channels = options.num_channels,
                         .stop = options.stop,
                         .slots = options.slots,
                         .decisions = options.decisions,
                         .measures_updates =
                             config.guard.update_size != "off" && arena.queue().device() == Device::cpu,
                         .pass = {.num_micro_batches = num_micro_batches,
                                  .pack_weights = packs_weights(config, num_micro_batches, layout.dp()),
                                  .peers = groups.role,
                                  .trace = options.trace,
                                  .clock = options.clock},
                         .groups = {}},
                .logs = options.logs} {
  check_groups(declared_.optimizer.groups, trained_names(*model));
  for (const auto& param : model->params()) declared_.step.groups.declared.push_back(param.get());
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
          .steps = s.steps > 0 ? s.steps : config.train.steps,
          .warmup_steps = s.warmup_steps,
          .warmup_init_ratio = s.warmup_init_ratio,
          .min_lr_ratio = s.min_lr_ratio,
          .decay_fraction = s.wsd_decay_fraction,
          .power = s.power,
          .first_step = s.first_step};
}

void Training::split_tensors(const Sharding& sharding) {
  shard_model(*model, sharding, *declared_.groups.tensor);
  declared_.step.groups.tensor = declared_.groups.tensor;
}

void Training::split_experts() {
  if (declared_.layout.ep > 1) {
    exchange_ = std::make_unique<ExpertParallel>(*declared_.groups.experts);
    for (MoeLayer* layer : model->moe_layers()) exchange_->split(*layer);
  }
  declared_.step.groups.experts = declared_.groups.experts;
}

void Training::split_sequences() {
  context_ = std::make_unique<ContextParallel>(parse_context_kind(declared_.layout.cp_method),
                                               declared_.config.data.seq_len, *declared_.groups.context);
  declared_.step.pass.context = context_.get();
}

void Training::split_layers() {
  const std::vector<ModelPart> parts = cut_model(declared_.layout.stage_layers);
  std::vector<ModelPart> kept;
  for (size_t stage = 0; stage < parts.size(); ++stage)
    if (declared_.layout.rank_of_stage[stage] == declared_.groups.pipeline->rank())
      kept.push_back(parts[stage]);
  model->keep(kept);
  declared_.parallel.section = [this, kept](const Weight& weight) {
    if (&weight == &model->head())
      return -1;  // a bucket of its own: the head's gradient is already complete in the forward pass
    const auto has = [&](const ModelPart& part) { return part.has(weight.unit()); };
    return static_cast<int>(std::find_if(kept.begin(), kept.end(), has) - kept.begin());
  };
  declared_.step.groups.pipeline = declared_.groups.pipeline;
  if (declared_.groups.pipeline_ends->size() > 1) declared_.step.groups.ends = declared_.groups.pipeline_ends;
}

void Training::allocate(Env& env) {
  host = host_memory(declared_.config, arena.queue().device());
  role = make_role(declared_, env, host.get());
}

HeldOutPasses Training::held_out_passes() const {
  PipelineRunner* pipeline = role->pipeline();
  return {.sum_losses = [pipeline](auto batches) { return pipeline->sum_losses(batches); },
          .at_a_time = pipeline->at_a_time(),
          .sums = declared_.groups.losses};
}

std::vector<int64_t> Training::own_micro_batches() const {
  const Gradients* gradients = role->gradients();
  return gradients != nullptr ? gradients->micro_batches_of_step(num_micro_batches) : std::vector<int64_t>{};
}

void Training::initialize(uint64_t seed) {
  for (const auto& param : model->params())
    if (role->keeps(*param)) param->initialize(seed);
}

std::vector<StateTensor> Training::state() const {
  std::vector<StateTensor> state;
  const std::string own = prefix();
  for (const auto& param : model->params())
    if (role->keeps(*param))
      state.push_back(kept_part(
          own + "model", *param, param->range(),
          {param->resident_master(), [p = param.get()](int64_t first, int64_t count, float* values) {
             p->read_master(first, count, values);
           }}));
  for (const auto& of_param : role->optimizer_states())
    state.push_back(kept_part(own + of_param.name, *of_param.param, of_param.param->range(),
                              {of_param.tensor, [of_param](int64_t first, int64_t count, float* values) {
                                 of_param.read(first, count, values);
                               }}));
  if (const OuterSync* outer = role->outer()) add_outer(state, *outer, model->params());
  add_compression(state, role->exchange_states(), own);
  std::erase_if(state,
                [](const StateTensor& part) { return part.boxes.empty(); });  // other ranks have all of it
  return state;
}

std::vector<SnapshotTensor> Training::snapshot_tensors() const {
  std::unordered_set<std::string> out_of_place;
  std::unordered_map<const Param*, std::vector<std::string>>
      names;  // of its optimizer state; none: not all of it resides
  for (const auto& of_param : role->optimizer_states())
    if (of_param.tensor.defined() && !of_param.param->is_kept_elsewhere())
      names[of_param.param].push_back(prefix() + of_param.name + "." + of_param.param->name());
  if (role->updates_out_of_place())
    for (const auto& [param, of_param] : names) {
      out_of_place.insert(of_param.begin(), of_param.end());
      out_of_place.insert(prefix() + "model." + param->name());
    }
  std::vector<SnapshotTensor> tensors;
  for (const StateTensor& part : state())
    tensors.push_back({.slot = {.name = part.name,
                                .dtype = Dtype::f32,
                                .shape = part.whole,
                                .boxes = part.boxes,
                                .padding = part.padding},
                       .out_of_place = out_of_place.contains(part.name)});
  return tensors;
}

std::vector<NamedTensor> Training::tensors() const {
  std::vector<NamedTensor> tensors;
  for (const StateTensor& part : state()) add_slices(tensors, part);
  return tensors;
}

void Training::keep_first(const TrainState& first) {
  SnapshotSlots* slots = declared_.step.slots;
  if (slots == nullptr) return;
  slots->hold(state());
  if (!slots->has_a_step()) slots->commit(first);
}

std::vector<int64_t> Training::whole_steps(const TrainState& now) const {
  SnapshotSlots* slots = declared_.step.slots;
  std::vector<int64_t> steps = slots != nullptr ? slots->steps() : std::vector<int64_t>{};
  if (role->is_whole() && (steps.empty() || steps.front() != now.step)) steps.insert(steps.begin(), now.step);
  return steps;
}

std::vector<NamedTensor> Training::go_back_to(int64_t step, TrainState& now) const {
  if (role->is_whole() && step == now.step) return tensors();
  now = declared_.step.slots->state_of(step);
  return declared_.step.slots->tensors_of(step);
}

void Training::load(const TensorSource& source) {
  load(source, [](const std::string&) { return false; });
}

void Training::resume_in_place(const TensorSource& source) {
  const SnapshotSlots& slots = *declared_.step.slots;
  load(source, [&](const std::string& name) { return slots.is_out_of_place(name); });
}

void Training::load(const TensorSource& source,
                    const std::function<bool(const std::string& name)>& is_in_place) {
  role->settle();  // an all-gather of publish() still reads the parameters
  const std::string own = replica_prefix(source, role->outer(), *model->params().front());
  for (const auto& param : model->params()) {
    if (!role->keeps(*param)) continue;
    if (is_in_place("model." + param->name()))
      param->copy_master();
    else
      param->store_kept(read_slices(source, own + "model", *param, param->range()).data());
  }
  for (const auto& state : role->optimizer_states()) {
    if (is_in_place(state.name + "." + state.param->name())) continue;
    const std::vector<float> values =
        read_slices(source, own + state.name, *state.param, state.param->range());
    state.write(values.data(), static_cast<int64_t>(values.size()));
  }
  if (OuterSync* outer = role->outer()) load_outer(source, *outer);
  // Residuals have the scale of their replica group's gradient, so those of a run without replica groups do not fit.
  load_compression(source, role->exchange_states(), own.empty() ? prefix() : own);
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

}  // namespace athanor::engine
