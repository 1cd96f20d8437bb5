#include "athanor/engine/pipeline_runner.h"

#include <utility>

namespace athanor::engine {

PipelineRunner::PipelineRunner(const Model& model, PipelineOptions options) : options_(std::move(options)) {
  ModelStageHooks hooks;
  hooks.micro_batch = [this](int micro) { return pass_.micro_batch(micro); };
  hooks.on_loss = [this](int micro, const Tensor& loss) { pass_.on_loss(micro, loss); };
  hooks.token_ranks = options_.token_ranks;
  for (const int stage : options_.schedule(1).stages_of(options_.group->rank()))
    stages_.push_back(std::make_unique<ModelStage>(model, options_.parts.at(static_cast<size_t>(stage)),
                                                   options_.recompute, hooks));
}

Executor& PipelineRunner::executor(int micro_batches, bool backward) {
  auto& executor = executors_[{micro_batches, backward}];
  if (executor) return *executor;
  Schedule schedule = options_.schedule(micro_batches);
  if (!backward)  // a valid schedule stays valid without its backward actions
    for (auto& actions : schedule.ranks)
      std::erase_if(actions, [](const Action& action) { return action.act != Act::forward; });
  std::vector<Stage*> stages;
  for (const auto& stage : stages_) stages.push_back(stage.get());
  const auto after_action = [this](const Action& action) {
    if (pass_.after_action) pass_.after_action(action);
  };
  executor = std::make_unique<Executor>(
      std::move(schedule), stages, *options_.group, *options_.arena,
      ExecutorOptions{.trace = options_.trace, .after_action = after_action, .clock = options_.clock});
  return *executor;
}

void PipelineRunner::run(PipelinePass pass, bool backward) {
  pass_ = std::move(pass);
  for (const auto& stage : stages_) stage->forget();  // left over if a pass failed
  Executor& runs = executor(pass_.num_micro_batches, backward);
  runs_ = &runs;
  runs.run();
  pass_ = {};
}

std::vector<double> PipelineRunner::sum_losses(std::span<const HeldOutBatch> batches) {
  std::vector<double> sums(batches.size(), 0.0);
  const auto inputs = [&](int micro) -> MicroBatch {
    const HeldOutBatch& batch = batches[static_cast<size_t>(micro)];
    return {{.num_sequences = batch.inputs.ids.dim(0),
             .seq_len = batch.inputs.ids.dim(1),
             .document_starts = batch.document_starts,
             .document_ends = batch.document_ends},
            batch.inputs};
  };
  const auto on_loss = [&](int micro, const Tensor& loss) {
    sums[static_cast<size_t>(micro)] = sum_of_tokens(loss);
  };
  run({.num_micro_batches = static_cast<int>(batches.size()), .micro_batch = inputs, .on_loss = on_loss},
      /*backward=*/false);
  return sums;
}

}  // namespace athanor::engine
