#include "athanor/train/grain_passes.h"

#include <optional>
#include <utility>

namespace athanor {

GrainPasses::GrainPasses(const Model& model, GrainGradients& gradients, Arena& arena,
                         const PassOptions& options)
    : model_(model), gradients_(gradients), arena_(arena), options_(options), packed_weights_(arena) {
  if (!options_.pack_weights) return;
  for (const auto& param : model.params())
    if (param->whole() && param->is_matrix()) packed_weights_.hold(param->value());
}

MicroBatch GrainPasses::micro_batch(const TrainState& state, const Batch& batch) const {
  MicroBatch grain = make_micro_batch(arena_, state, batch, options_.context);
  grain.context.activations = options_.activations;
  return grain;
}

void GrainPasses::run_grain(const TrainState& state, int64_t grain, const Batch& batch, GrainLosses& losses,
                            ExpertLoads& experts, StepParts& seconds) {
  compute_grain(model_, micro_batch(state, batch),
                {.recompute = options_.recompute,
                 .begin = [&](Tape& tape) { gradients_.begin_grain(tape, grain); },
                 .on_loss = [&](const Tensor& loss) { losses.add(grain, batch, options_.context, loss); },
                 .end = [&] { gradients_.end_grain(); },
                 .waited = [&] { return gradients_.comm_seconds(); },
                 .trace = options_.trace,
                 .clock = options_.clock},
                seconds);
  experts.take(grain);
}

// Micro-batch i is the rank's i-th grain.
void GrainPasses::run_pipeline(const TrainState& state, const std::vector<int64_t>& grains,
                               const std::vector<Batch>& batches, GrainLosses& losses, ExpertLoads& experts,
                               StepParts& seconds) {
  const Span span(options_.trace, "pipeline", "step");
  const auto grain_of = [&](int micro) { return grains.at(static_cast<size_t>(micro)); };
  PipelinePass pass;
  for (const Batch& batch : batches) pass.batches.push_back(micro_batch(state, batch));
  pass.on_loss = [&](int micro, const Tensor& loss) {
    losses.add(grain_of(micro), batches[static_cast<size_t>(micro)], options_.context, loss);
  };
  pass.on_weight_ready = [&](Weight& weight, int micro) { gradients_.weight_ready(weight, grain_of(micro)); };
  double before = options_.clock(), waited_before = wait_seconds();
  pass.after_action = [&](const Action& action) {
    experts.take(grain_of(action.micro_batch));
    const double now = options_.clock(), waited = wait_seconds();
    (action.act == Act::forward ? seconds.forward : seconds.backward) +=
        now - before - (waited - waited_before);
    before = now;
    waited_before = waited;
  };
  gradients_.begin_pass();
  options_.pipeline->train(std::move(pass));
  gradients_.end_pass();
}

double GrainPasses::wait_seconds() const {
  return gradients_.comm_seconds() + (options_.pipeline != nullptr ? options_.pipeline->wait_seconds() : 0.0);
}

void GrainPasses::run(const TrainState& state, const std::function<const Batch&()>& next_batch,
                      GrainLosses& losses, ExpertLoads& experts, StepParts& seconds) {
  const std::vector<int64_t> grains = gradients_.grains_of_step(options_.num_grains);
  std::optional<PackedWeights::Scope> packed;
  if (options_.pack_weights) packed.emplace(packed_weights_, arena_.queue());
  std::vector<Batch> batches;  // of a pipeline
  for (const int64_t grain : grains) {
    const double start = options_.clock();
    const Batch& batch = next_batch();
    seconds.data += options_.clock() - start;
    if (options_.pipeline == nullptr)
      run_grain(state, grain, batch, losses, experts, seconds);
    else
      batches.push_back(batch);
  }
  if (options_.pipeline != nullptr) run_pipeline(state, grains, batches, losses, experts, seconds);
  packed.reset();
  gradients_.finish();
}

}  // namespace athanor
