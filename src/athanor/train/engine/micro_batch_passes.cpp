#include "athanor/train/engine/micro_batch_passes.h"

#include <map>
#include <optional>
#include <utility>

namespace athanor::train::engine {

// The micro-batches of a step that are under way, and where its time goes. Micro-batch i is this rank's i-th one.
class MicroBatchPasses::Step {
 public:
  Step(const MicroBatchPasses& passes, const TrainState& state,
       const std::function<const Batch&()>& next_batch, MicroBatchLosses& losses, ExpertLoads& experts,
       StepParts& seconds)
      : passes_(passes),
        state_(state),
        next_batch_(next_batch),
        losses_(losses),
        experts_(experts),
        seconds_(seconds),
        numbers_(passes.gradients_.micro_batches_of_step(passes.options_.num_micro_batches)) {}

  PipelinePass pass() {
    return {.num_micro_batches = static_cast<int>(numbers_.size()),
            .micro_batch = [this](int micro) { return read(micro).inputs; },
            .on_loss =
                [this](int micro, const Tensor& loss) {
                  losses_.add(number(micro), read(micro).batch, passes_.options_.context, loss);
                },
            .after_action = [this](const Action& action) { after(action); }};
  }

 private:
  struct UnderWay {
    Batch batch;
    MicroBatch inputs;
    int64_t stages_left;  // of this rank, which have not run their backward yet
  };

  int64_t number(int micro) const { return numbers_.at(static_cast<size_t>(micro)); }

  // Seconds since the last call in which this rank did not wait for others.
  double lap() {
    const double now = passes_.options_.clock(), waited = passes_.wait_seconds();
    const double seconds = now - last_ - (waited - last_waited_);
    last_ = now;
    last_waited_ = waited;
    return seconds;
  }

  const UnderWay& read(int micro) {
    for (; num_read_ <= micro; ++num_read_) {
      const double before = lap();
      if (num_read_ > 0) seconds_.forward += before;
      const Batch& batch = next_batch_();
      seconds_.data += lap();
      if (under_way_.empty())
        span_.emplace(passes_.options_.trace,
                      passes_.pipeline_.num_stages() == 1 ? "micro-batch" : "pipeline", "step");
      MicroBatch inputs = make_micro_batch(passes_.arena_, state_, batch, passes_.options_.context);
      inputs.context.activations = passes_.options_.activations;
      under_way_[num_read_] = {batch, std::move(inputs), passes_.pipeline_.num_own_stages()};
    }
    return under_way_.at(micro);
  }

  void after(const Action& action) {
    experts_.take(number(action.micro_batch));
    const auto done = under_way_.find(action.micro_batch);
    if (frees_activations(action.act) && --done->second.stages_left == 0) under_way_.erase(done);
    if (under_way_.empty()) {
      passes_.gradients_.end_micro_batch();
      span_.reset();
    }
    (action.act == Act::forward ? seconds_.forward : seconds_.backward) += lap();
  }

  const MicroBatchPasses& passes_;
  const TrainState& state_;
  const std::function<const Batch&()>& next_batch_;
  MicroBatchLosses& losses_;
  ExpertLoads& experts_;
  StepParts& seconds_;
  std::vector<int64_t> numbers_;  // in the step
  std::map<int, UnderWay> under_way_;
  int num_read_ = 0;
  std::optional<Span> span_;  // while some are under way
  double last_ = 0.0, last_waited_ = 0.0;
};

MicroBatchPasses::MicroBatchPasses(const Model& model, Gradients& gradients, PipelineRunner& pipeline,
                                   Arena& arena, const PassOptions& options)
    : gradients_(gradients), pipeline_(pipeline), arena_(arena), options_(options), packed_weights_(arena) {
  if (!options_.pack_weights) return;
  for (const auto& param : model.params())
    if (param->whole() && param->is_matrix()) packed_weights_.hold(param->value());
}

double MicroBatchPasses::wait_seconds() const {
  return gradients_.comm_seconds() + pipeline_.wait_seconds();
}

void MicroBatchPasses::run(const TrainState& state, const std::function<const Batch&()>& next_batch,
                           MicroBatchLosses& losses, ExpertLoads& experts, StepParts& seconds) {
  std::optional<PackedWeights::Scope> packed;
  if (options_.pack_weights) packed.emplace(packed_weights_, arena_.queue());
  Step step(*this, state, next_batch, losses, experts, seconds);
  pipeline_.train(step.pass());
  packed.reset();
  gradients_.finish();
}

}  // namespace athanor::train::engine
