// The steps of a segment, and what stands between them: metrics, evaluation, samples, checkpoints.
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/data/loader.h"
#include "athanor/engine/load_balancer.h"
#include "athanor/kernels/peak.h"
#include "athanor/run/doing.h"
#include "athanor/run/doubtful_data.h"
#include "athanor/run/segment.h"
#include "athanor/run/server_run.h"

namespace athanor::run {
namespace {

constexpr int64_t kTracedSteps = 20;                // a trace of more is unreadable and large
constexpr std::chrono::milliseconds kPatience{20};  // between two looks

bool has_streams(std::span<const Channel> channels) {
  return std::ranges::any_of(channels, [](const Channel& channel) { return channel.spool() != nullptr; });
}

}  // namespace

Segment::End Segment::train() {
  const End how = run_steps();
  if (how == End::phase) run_.guards.forget_all();  // what is usual of another mixture is not of the next one
  if ((how == End::done || how == End::phase) && !phase_.name.empty()) {
    run_.report.steps = run_.state.step;
    run_.report.end_phase(phase_.name);
  }
  return how;
}

// All ranks look at the same files, but not at the same time: they go on when each has seen what the step needs.
Segment::Data Segment::wait_for_data(const BatchReader& reader) {
  if (!has_streams(phase_.data.channels)) return Data::there;
  const int64_t step = run_.state.step + 1;
  std::optional<Doing> waiting;
  while (true) {
    const bool asked = run_.io.stop != nullptr && run_.io.stop->load() > 0;
    std::array<double, 2> ranks = {reader.has(step) ? 0.0 : 1.0,
                                   asked ? 1.0 : 0.0};  // that wait; that are asked to stop
    group_.all_reduce(ranks.data(), std::ssize(ranks), Dtype::f64, "data that have come").wait();
    if (ranks[1] > 0.0) return Data::asked_to_stop;
    if (ranks[0] == 0.0) break;
    if (!waiting) waiting.emplace(run_, control::ProgressKind::other);
    std::this_thread::sleep_for(kPatience);
  }
  return reader.ended_before(step) ? Data::ended : Data::there;
}

Segment::End Segment::end_with_data(const BatchReader& reader) {
  const std::string channel = reader.ended_before(run_.state.step + 1).value_or("");
  run_.recorder->message(fmt::format("the text of channel '{}' has ended: the run ends after step {}",
                                     channel, run_.state.step));
  run_.phases.back().last_step = last_step_ = run_.state.step;
  StepMetrics unused;
  validate_now(config_.train.eval_tokens, &unused);
  save(/*is_last=*/true);
  return end();
}

Segment::End Segment::run_steps() {
  if (run_.may_owe_save && !states_agree()) return End::back;
  if (is_asked_to_stop(run_.io, group_)) {
    if (run_.may_owe_save) save(/*is_last=*/true);
    return End::interrupted;
  }
  if (std::exchange(run_.saves_first, false)) save_first();
  if (std::exchange(run_.may_owe_save, false) && run_.saves.is_due(run_.state.step) &&
      run_.state.step < phase_.last_step)
    save_due();
  if (serves()) return serve();
  if (run_.state.step == phase_.last_step) {  // a failure after the last step left these
    StepMetrics unused;
    validate_now(config_.train.eval_tokens, &unused);
    save(/*is_last=*/true);
    return end();
  }
  const Doing steps(run_, control::ProgressKind::step);
  std::optional<BatchReader> reader;
  std::optional<Loader> loader;
  const auto open_loader = [&] {
    loader.reset();
    reader.emplace(phase_.data.channels,
                   make_sampler(phase_.data.channels, config_.train.seed, config_.train.global_batch_size,
                                {.name = phase_.name,
                                 .first_step = phase_.first_step,
                                 .skips = skips_of(run_.decisions),
                                 .quarantine = {}},
                                quarantines_of(run_.decisions)),
                   config_.train.micro_batch_size,
                   config_.guard.damaged_data == "act" && training_->role->repeats() ? OnDamage::report
                                                                                     : OnDamage::fail);
    const BoundThread anywhere(run_.io.placement.processors);  // its thread must not wait for this one
    loader.emplace(*reader, run_.state.step + 1, phase_.last_step, training_->own_micro_batches());
  };
  open_loader();
  LoadBalancer balancer(config_, *training_);
  LossWatch watch(run_.state.step > 0 ? std::optional<double>(run_.report.valid_loss_first) : std::nullopt);
  const int64_t first_step = run_.state.step + 1;
  for (bool stop = false; run_.state.step < last_step_ && !stop;) {
    if (const Data data = wait_for_data(*reader); data != Data::there) {
      loader.reset();
      if (data == Data::ended) return end_with_data(*reader);
      save(/*is_last=*/true);  // a request to stop
      break;
    }
    if (run_.io.profiler != nullptr) run_.queue->set_meter(&run_.io.profiler->meter);
    const double start = run_.io.clock();
    std::vector<DamagedToken> damage;
    const auto next_batch = [&]() -> const Batch& {
      const Batch& batch = loader->next();
      damage.insert(damage.end(), batch.damage.begin(), batch.damage.end());
      return batch;
    };
    const StepResult result = training_->role->step(run_.state, next_batch, training_->role->repeats());
    if (!result.undone.empty()) {
      if (!may_run_again(result, damage)) return End::back;
      open_loader();
      run_.tell({.event = "guard",
                 .step = run_.state.step + 1,
                 .cause = run_.went_back_because,
                 .recover_seconds = run_.io.clock() - start,
                 .lost_steps = 1});
      run_.went_back_because.clear();
      continue;
    }
    const double seconds = run_.io.clock() - start;
    // The step is done. Whatever fails from here on, it stands in the metrics.
    run_.tell_decisions();
    std::exception_ptr broken = result.broken;
    const auto attempt = [&](const std::function<void()>& work) {
      if (broken) return;
      try {
        work();
      } catch (const Failure&) {
        broken = std::current_exception();
      }
    };
    if (run_.state.step == first_step && run_.rates.empty())
      run_.report.first_step_seconds = process_age_seconds();
    if (run_.peak_flops == 0.0)
      attempt([&] { measure_peak(); });  // not before: the first step should not wait for it
    StepMetrics metrics = step_metrics(result, run_.state, phase_.data.channels,
                                       {.seconds = seconds,
                                        .flops_per_token = run_.flops_per_token,
                                        .peak_flops = run_.peak_flops,
                                        .peak_bytes = static_cast<int64_t>(run_.arena.usage().peak_total),
                                        .world_size = group_.size(),
                                        .generation = run_.generation});
    const bool warm = run_.state.step > first_step || phase_.last_step == first_step;
    if (warm) run_.rates.push_back(metrics.tokens_per_second);
    if (run_.io.profiler != nullptr) {
      run_.queue->set_meter(nullptr);  // validation is no part of a step
      if (!warm) run_.io.profiler->clear();
      if (warm) run_.io.profiler->add_step(metrics.step_seconds, result.seconds);
    }
    run_.report.train_loss_last = result.loss;
    stop = result.stop;
    const bool done = run_.state.step == phase_.last_step, finished = done && end() == End::done;
    const auto due = [&](int64_t every) { return every > 0 && run_.state.step % every == 0; };
    const bool evaluates = due(config_.train.eval_every) || done;
    bool evaluated = !evaluates;
    if (evaluates)
      attempt([&] {
        evaluated = validate_now(config_.train.eval_tokens, &metrics);
        if (evaluated) measure_peak();
      });
    const Guards::Verdict verdict = ask_guards(result, metrics);
    metrics.alarms = verdict.alarms;
    run_.recorder->step(metrics, run_.last_step());
    run_.committed(run_.state.step);
    if (group_.size() == 1) attempt([&] { run_.world->all().throw_if_broken(); });  // no collective tells it
    if (broken) std::rethrow_exception(broken);
    check_step(result, metrics);
    for (const std::string& line : verdict.warnings) {
      run_.recorder->warning(line);
      run_.tell({.event = "guard", .cause = line});
    }
    if (verdict.first_undone) return End::back;
    const bool saves = stop || done || run_.saves.is_due(run_.state.step);
    if ((due(config_.guard.state_hash_every) || evaluates || saves) && !states_agree()) return End::back;
    run_.take_saved();
    run_.keeper.confirm(config_.checkpoint.keep, *run_.recorder);
    if (const auto doubt = watch.after(run_.state.step, result.loss)) run_.recorder->warning(*doubt);
    run_.renew_report(metrics.tokens_per_second);
    if (!stop) write_samples();
    if (!result.applied)
      run_.recorder->warning(fmt::format("step {}: gradients overflowed, step skipped, loss scale now {:g}",
                                         run_.state.step, run_.state.loss_scale.scale));
    if (stop || done)
      save(/*is_last=*/stop || finished);
    else if (saves)
      save_due();
    // A request to stop may have come during the evaluation or the save; then no further step is run. Servers learn of
    // a request only in a step.
    if (!stop && !done && layout_.servers == 0 && (evaluates || saves)) {
      stop = is_asked_to_stop(run_.io, peers());
      if (stop) save(/*is_last=*/true);
    }
    if (finished && !evaluated)
      run_.recorder->warning(
          fmt::format("the last evaluation was interrupted: athanor evaluate {}", run_.folder.path));
    if ((run_.state.step - first_step + 1 == kTracedSteps || done || stop)) run_.write_trace(group_.rank());
    if (balancer.after_step(run_.state.step, result.seconds, !done && !stop)) {
      open_loader();
      run_.recorder->message(fmt::format("step {}: load balancing: micro-batches per rank are {}",
                                         run_.state.step, fmt::join(balancer.counts(), ", ")));
    }
    if (!stop && !done && tuner_.after_step(seconds)) last_step_ = run_.state.step;
  }
  if (run_.io.profiler != nullptr)
    run_.io.profiler->ceilings = {run_.peak_flops / peers().size(), measure_copy_bandwidth(*run_.queue)};
  return end();
}

Segment::End Segment::serve() {
  const auto save_due = [this](bool stop) {
    run_.tell_decisions();
    if (stop || end() != End::interrupted || run_.saves.is_due(run_.state.step))
      save(/*is_last=*/stop || end() == End::done);
    run_.renew_report(0.0);
  };
  serve_steps(*training_->role, phase_.last_step, run_.state, save_due);
  return end();
}

}  // namespace athanor::run
