#include "athanor/engine/step.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>

#include "athanor/base/error.h"
#include "athanor/parallel/data/no_targets.h"
#include "athanor/parallel/data/not_finite.h"

namespace athanor::engine {

using Note = MicroBatchLosses::Note;

// The sums of losses are complete on a rank only where every rank that sums them came this far; where those are not all
// ranks that train (tp), a second call asks all. After it no rank can learn of a failure that another one does not know.
double StepRunner::vote(MicroBatchLosses& losses, StepResult& result) {
  losses.note(Note::stop) = options_.stop != nullptr && options_.stop->load() > 0 ? 1.0 : 0.0;
  losses.note(Note::update_squares) = probe_.update_squares();
  losses.note(Note::weight_squares) = probe_.weight_squares();
  group_.all_reduce(losses.values.data(), static_cast<int64_t>(losses.values.size()), Dtype::f64, "losses")
      .wait();
  if (everyone_.size() > group_.size())
    everyone_
        .all_reduce(&losses.note(Note::stop), static_cast<int64_t>(MicroBatchLosses::kNumNotes), Dtype::f64,
                    "vote")
        .wait();
  result.stop = losses.note(Note::stop) > 0.0;
  result.damaged = losses.note(Note::damaged) > 0.0;
  if (losses.note(Note::weight_squares) > 0.0)
    result.last_update = std::sqrt(losses.note(Note::update_squares) / losses.note(Note::weight_squares));
  const MicroBatchLosses::Means means = losses.means();
  result.loss = means.loss;
  result.channel_loss = means.channel;
  result.tokens = means.tokens;
  result.tokens_read = means.read;
  const auto [first, last] = parallel_.summed_micro_batches(options_.pass.num_micro_batches);
  return losses.tokens_of(first, last);
}

// Where training could not go on after the step: why; the same kind of reason on all ranks.
std::string StepRunner::why_undone(MicroBatchLosses& losses, const StepResult& result,
                                   const StageGradients::Norm& norm, const LossScale& scale) {
  if (result.damaged) return "a sequence is damaged";
  if (losses.note(Note::not_finite) != 0.0) {
    const std::string own = stage_.not_finite(norm);
    return own.empty() ? kNotFiniteElsewhere : own;
  }
  if (!std::isfinite(result.loss)) return "the loss is not finite";
  if (scale.dynamic && !std::isfinite(norm.value) && scale.scale <= LossScale::kMin)
    return fmt::format("gradients overflow at the smallest loss scale, {:g}", scale.scale);
  return "";
}

void StepRunner::sum_shared_gradients() {
  stage_.sum_shared([&](Param& param) { return parallel_.grad(param); },
                    [&](Param& param, const Tensor& sum) { parallel_.keep_grad(param, sum); });
}

StepResult StepRunner::run(TrainState& state, const std::function<const Batch&()>& next_batch,
                           bool may_repeat) {
  StepResult result;
  MicroBatchLosses losses(options_.pass.num_micro_batches, options_.num_channels);
  ExpertLoads experts(model_.moe_layers(), options_.pass.num_micro_batches);
  if (!exchanges_keep_state_) exchanges_keep_state_ = !parallel_.exchange_states().empty();
  is_changing_ = *exchanges_keep_state_;
  parallel_.begin_step({.num_micro_batches = options_.pass.num_micro_batches,
                        .update = state.updates + 1,
                        .loss_scale = state.loss_scale.scale});
  passes_.run(state, next_batch, losses, experts, result.seconds);
  const double start = options_.pass.clock();
  sum_shared_gradients();
  if (options_.groups.tensor != nullptr) experts.reduce(*options_.groups.tensor);
  experts.reduce(group_);
  result.experts = experts.summary();
  const int64_t step = state.step + 1;
  WeightSync* weights = options_.weights;
  const bool meets = weights != nullptr && weights->due(step);  // in a step that is skipped, too
  if (weights != nullptr) weights->begin();
  const StageGradients::Norm norm = stage_.norm(parallel_.sum_squares(model_.params()));
  bool finite = std::isfinite(norm.value);
  if (weights != nullptr && state.loss_scale.dynamic) finite = weights->is_true_everywhere(finite);
  losses.note(Note::not_finite) = finite || state.loss_scale.dynamic ? 0.0 : 1.0;
  const double summed_tokens = vote(losses, result);
  if (result.tokens == 0 && !result.damaged && !is_plan_) refuse_without_targets(step);
  if (result.damaged || may_repeat) result.undone = why_undone(losses, result, norm, state.loss_scale);
  if (!result.undone.empty()) {
    parallel_.skip_step();
    return result;
  }
  if (losses.note(Note::not_finite) != 0.0)
    throw NotFinite(fmt::format("step {}: {}", step, why_undone(losses, result, norm, state.loss_scale)));
  const double reduced = options_.pass.clock();
  result.seconds.comm = passes_.wait_seconds() + (reduced - start);

  const Span span(options_.pass.trace, "update", "step");
  TrainState next = state;
  next.step = step;
  next.tokens += result.tokens;
  if (options_.decisions != nullptr) next.follow(*options_.decisions);
  result.loss_scale = state.loss_scale.scale;
  result.lr = options_.schedule.at(step);
  const double to_mean = to_mean_of(summed_tokens, state.loss_scale.scale);
  result.grad_norm = norm.value * to_mean;
  result.applied = next.loss_scale.update(finite);
  is_changing_ = true;
  if (options_.slots != nullptr) options_.slots->begin(step);
  if (result.applied) {
    const double clip = options_.max_grad_norm > 0.0 && parallel_.sums_gradients() &&
                                result.grad_norm > options_.max_grad_norm
                            ? options_.max_grad_norm / (result.grad_norm + 1e-6)
                            : 1.0;
    ++next.updates;
    probe_.before();
    optimizer_.step([this](Param& param) -> const Tensor& { return parallel_.grad(param); },
                    {.update = next.updates,
                     .lr = result.lr,
                     .grad_scale = to_mean * clip,
                     .grads_stay = parallel_.grads_stay()});
    probe_.after();
    experts.balance();
  } else {
    probe_.none();
    parallel_.skip_step();
    optimizer_.carry_over();
  }
  if (meets) weights->sync();
  if (options_.slots != nullptr) options_.slots->commit(next, meets);
  state = next;
  is_changing_ = false;
  if (result.applied || meets) try {
      parallel_.publish();
    } catch (const Failure&) {
      result.broken = std::current_exception();
    }
  result.seconds.update = options_.pass.clock() - reduced;
  return result;
}

}  // namespace athanor::engine
