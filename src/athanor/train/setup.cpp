#include "athanor/train/setup.h"

#include "athanor/train/param_slices.h"

namespace athanor {

Training::Training(const Config& config, int64_t num_channels, Group& group, Arena& arena_in, Trace* trace,
                   const std::atomic<int>* stop)
    : compute(parse_dtype(config.precision.compute)),
      num_grains((config.train.global_batch + config.train.micro_batch - 1) / config.train.micro_batch),
      arena(arena_in),
      model(make_model(config.model)),
      group_(group) {
  const OptimizerConfig& o = config.optimizer;
  optimizer = make_optimizer({.name = o.name,
                              .beta1 = o.betas[0],
                              .beta2 = o.betas[1],
                              .eps = o.eps,
                              .momentum = o.momentum,
                              .weight_decay = o.weight_decay},
                             model->params());
  parallel_options_ = {.reduce = config.parallel.reduce == "tree" ? Reduce::tree : Reduce::fast,
                       .stage = static_cast<int>(config.parallel.zero),
                       .dtype = compute,
                       .bucket_bytes = config.parallel.bucket_bytes,
                       .trace = trace};
  const ScheduleConfig& s = config.schedule;
  step_options_ = {.schedule = {.decay = s.decay,
                                .lr = o.lr,
                                .steps = config.train.steps,
                                .warmup_steps = s.warmup_steps,
                                .min_lr_ratio = s.min_lr_ratio,
                                .decay_fraction = s.wsd_decay_fraction},
                   .clip_norm = o.clip_norm,
                   .recompute = parse_recompute(config.parallel.recompute).value_or(RecomputePlan{}),
                   .num_grains = num_grains,
                   .num_channels = num_channels,
                   .stop = stop,
                   .trace = trace};
}

void Training::split(const Sharding& sharding, Group& tensor_group) {
  shard_model(*model, sharding, tensor_group);
  step_options_.tensor_group = &tensor_group;
}

void Training::allocate() {
  parallel = std::make_unique<DataParallel>(model->weights(), group_, arena, parallel_options_);
  model->allocate(arena, compute, /*with_master=*/true);
  optimizer->allocate(arena);
  parallel->allocate();
  runner = std::make_unique<StepRunner>(*model, *optimizer, *parallel, group_, arena, step_options_);
}

std::vector<NamedTensor> Training::tensors() const {
  std::vector<NamedTensor> tensors;
  for (const auto& param : model->params()) add_slices(tensors, "model", *param, param->master());
  for (const auto& state : optimizer->states()) add_slices(tensors, state.name, *state.param, state.tensor);
  return tensors;
}

void Training::load(const Checkpoint& checkpoint) {
  for (const auto& param : model->params())
    param->store_kept(read_slices(checkpoint, "model", *param).data());
  for (const auto& state : optimizer->states()) {
    const std::vector<float> values = read_slices(checkpoint, state.name, *state.param);
    Tensor elements = state.tensor.flat(0, static_cast<int64_t>(values.size()));
    copy_from_host(elements, values.data(), elements.size_bytes());
  }
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

}  // namespace athanor
