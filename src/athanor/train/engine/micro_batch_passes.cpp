#include "athanor/train/engine/micro_batch_passes.h"

#include <optional>
#include <utility>

namespace athanor::train::engine {

MicroBatchPasses::MicroBatchPasses(const Model& model, Gradients& gradients, Arena& arena,
                                   const PassOptions& options)
    : model_(model), gradients_(gradients), arena_(arena), options_(options), packed_weights_(arena) {
  if (!options_.pack_weights) return;
  for (const auto& param : model.params())
    if (param->whole() && param->is_matrix()) packed_weights_.hold(param->value());
}

MicroBatch MicroBatchPasses::inputs_of(const TrainState& state, const Batch& batch) const {
  MicroBatch micro_batch = make_micro_batch(arena_, state, batch, options_.context);
  micro_batch.context.activations = options_.activations;
  return micro_batch;
}

void MicroBatchPasses::run_micro_batch(const TrainState& state, int64_t index, int64_t micro_batch,
                                       const Batch& batch, MicroBatchLosses& losses, ExpertLoads& experts,
                                       StepParts& seconds) {
  MicroBatch inputs = inputs_of(state, batch);
  inputs.context.micro_batch = index;
  compute_micro_batch(
      model_, inputs,
      {.recompute = options_.recompute,
       .on_loss = [&](const Tensor& loss) { losses.add(micro_batch, batch, options_.context, loss); },
       .end = [&] { gradients_.end_micro_batch(); },
       .waited = [&] { return gradients_.comm_seconds(); },
       .trace = options_.trace,
       .clock = options_.clock},
      seconds);
  experts.take(micro_batch);
}

// Pipeline micro-batch i is this rank's i-th micro-batch of the step.
void MicroBatchPasses::run_pipeline(const TrainState& state, const std::vector<int64_t>& micro_batches,
                                    const std::vector<Batch>& batches, MicroBatchLosses& losses,
                                    ExpertLoads& experts, StepParts& seconds) {
  const Span span(options_.trace, "pipeline", "step");
  const auto micro_batch_of = [&](int micro) { return micro_batches.at(static_cast<size_t>(micro)); };
  PipelinePass pass;
  for (const Batch& batch : batches) pass.batches.push_back(inputs_of(state, batch));
  pass.on_loss = [&](int micro, const Tensor& loss) {
    losses.add(micro_batch_of(micro), batches[static_cast<size_t>(micro)], options_.context, loss);
  };
  double before = options_.clock(), waited_before = wait_seconds();
  pass.after_action = [&](const Action& action) {
    experts.take(micro_batch_of(action.micro_batch));
    const double now = options_.clock(), waited = wait_seconds();
    (action.act == Act::forward ? seconds.forward : seconds.backward) +=
        now - before - (waited - waited_before);
    before = now;
    waited_before = waited;
  };
  options_.pipeline->train(std::move(pass));
  gradients_.end_micro_batch();
}

double MicroBatchPasses::wait_seconds() const {
  return gradients_.comm_seconds() + (options_.pipeline != nullptr ? options_.pipeline->wait_seconds() : 0.0);
}

void MicroBatchPasses::run(const TrainState& state, const std::function<const Batch&()>& next_batch,
                           MicroBatchLosses& losses, ExpertLoads& experts, StepParts& seconds) {
  const std::vector<int64_t> micro_batches = gradients_.micro_batches_of_step(options_.num_micro_batches);
  std::optional<PackedWeights::Scope> packed;
  if (options_.pack_weights) packed.emplace(packed_weights_, arena_.queue());
  std::vector<Batch> batches;  // with a pipeline: all of them are read first
  for (int64_t index = 0; index < std::ssize(micro_batches); ++index) {
    const double start = options_.clock();
    const Batch& batch = next_batch();
    seconds.data += options_.clock() - start;
    if (options_.pipeline == nullptr)
      run_micro_batch(state, index, micro_batches[static_cast<size_t>(index)], batch, losses, experts,
                      seconds);
    else
      batches.push_back(batch);
  }
  if (options_.pipeline != nullptr) run_pipeline(state, micro_batches, batches, losses, experts, seconds);
  packed.reset();
  gradients_.finish();
}

}  // namespace athanor::train::engine
