#include "athanor/engine/micro_batch_passes.h"

#include <map>
#include <optional>

#include "athanor/base/clock.h"

namespace athanor::engine {
namespace {

constexpr int64_t kLookEveryNs = 2'000'000;  // a look may ask the system about each rank

struct UnderWay {
  Batch batch;
  MicroBatch inputs;
  int64_t stages_left;  // of this rank, which have not run their backward yet
};

}  // namespace

MicroBatchPasses::MicroBatchPasses(const Model& model, Gradients& gradients, PipelineRunner& pipeline,
                                   Arena& arena, const PassOptions& options)
    : gradients_(gradients), pipeline_(pipeline), arena_(arena), options_(options), packed_weights_(arena) {
  look_at_peers_ = [this] {
    const int64_t now = now_ns();
    if (now - looked_ns_ < kLookEveryNs) return;
    looked_ns_ = now;
    options_.peers->throw_if_broken();
  };
  if (!options_.pack_weights) return;
  for (const auto& param : model.params())
    if (param->whole() && param->is_matrix()) packed_weights_.hold(param->value());
}

double MicroBatchPasses::wait_seconds() const {
  return gradients_.comm_seconds() + pipeline_.wait_seconds();
}

// Micro-batch i is this rank's i-th one of the step.
void MicroBatchPasses::run(const TrainState& state, const std::function<const Batch&()>& next_batch,
                           MicroBatchLosses& losses, ExpertLoads& experts, StepParts& seconds) {
  const std::vector<int64_t> numbers = gradients_.micro_batches_of_step(options_.num_micro_batches);
  const auto number = [&](int micro) { return numbers.at(static_cast<size_t>(micro)); };
  std::optional<PackedWeights::Scope> packed;
  if (options_.pack_weights) packed.emplace(packed_weights_, arena_.queue());

  double last = 0.0, last_waited = 0.0;
  const auto lap = [&] {  // seconds since the last lap in which this rank did not wait for others
    const double now = options_.clock(), waited = wait_seconds();
    const double lap_seconds = now - last - (waited - last_waited);
    last = now;
    last_waited = waited;
    return lap_seconds;
  };
  std::map<int, UnderWay> under_way;
  std::optional<Span> span;  // while some are under way
  int num_read = 0;
  const auto read = [&](int micro) -> const UnderWay& {
    for (; num_read <= micro; ++num_read) {
      const double before = lap();
      if (num_read > 0) seconds.forward += before;
      const Batch& batch = next_batch();
      seconds.data += lap();
      losses.note(MicroBatchLosses::Note::damaged) += static_cast<double>(batch.damage.size());
      if (under_way.empty())
        span.emplace(options_.trace, pipeline_.num_stages() == 1 ? "micro-batch" : "pipeline", "step");
      MicroBatch inputs = make_micro_batch(arena_, state, batch, options_.context);
      inputs.context.activations = options_.activations;
      if (options_.peers != nullptr) inputs.context.between_operations = &look_at_peers_;
      under_way[num_read] = {batch, std::move(inputs), pipeline_.num_own_stages()};
    }
    return under_way.at(micro);
  };
  const auto after_action = [&](const Action& action) {
    experts.take(number(action.micro_batch));
    const auto done = under_way.find(action.micro_batch);
    if (frees_activations(action.act) && --done->second.stages_left == 0) under_way.erase(done);
    if (under_way.empty()) {
      gradients_.end_micro_batch();
      span.reset();
    }
    (action.act == Act::forward ? seconds.forward : seconds.backward) += lap();
  };
  pipeline_.train({.num_micro_batches = static_cast<int>(numbers.size()),
                   .micro_batch = [&](int micro) { return read(micro).inputs; },
                   .on_loss =
                       [&](int micro, const Tensor& loss) {
                         losses.add(number(micro), read(micro).batch, options_.context, loss);
                       },
                   .after_action = after_action});
  packed.reset();
  gradients_.finish();
}

}  // namespace athanor::engine
