#include "athanor/run/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/slot_source.h"
#include "athanor/config/effects.h"
#include "athanor/config/print.h"
#include "athanor/engine/device.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/models/load.h"
#include "athanor/run/agreement.h"
#include "athanor/run/decisions/set_settings.h"
#include "athanor/run/doing.h"
#include "athanor/run/finite.h"
#include "athanor/run/server_run.h"

namespace athanor::run {
namespace {

std::unique_ptr<World> named_world(World& world, const std::string& name) {
  if (name.empty()) return nullptr;
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.subset(std::move(ranks), name);
}

}  // namespace

bool is_asked_to_stop(const TrainIo& io, Group& group) {
  double asked = io.stop != nullptr && io.stop->load() != 0 ? 1.0 : 0.0;
  group.all_reduce(&asked, 1, Dtype::f64, "stop").wait();
  return asked > 0.0;
}

Segment::Segment(Run& run, World& world, const RunPhase& phase, const MemoryPlan& plan,
                 const std::string& name)
    : run_(run),
      phase_(phase),
      config_(phase.config),
      last_step_(std::min(phase.last_step,
                          next_set(run.decisions, run.state.step + 1).value_or(phase.last_step + 1) - 1)),
      own_world_(named_world(world, name)),
      device_world_(open_device_world(config_, own_world_ ? *own_world_ : world, run.io.nccl_module,
                                      *run.queue, run.arena, run.io.group_options)),
      world_(device_world_ ? *device_world_
             : own_world_  ? *own_world_
                           : world),
      group_(world_.all()),
      layout_(plan.layout),
      groups_(layout_, world_),
      slots_plan_(plan.slots),
      tuner_(run, phase, plan) {}

std::string identity_of(const Layout& layout) {
  return fmt::format("{:016x}", hash64(layout.text()));
}

SlotReader SlotsInPlace::reader() const {
  for (SlotReader& found : SlotReader::whole({memory.get(), size_bytes}, {}))
    if (found.slot() == slot) return std::move(found);
  fail("snapshot: slot {}: got one that is not whole any more", slot);
}

// In the memory of a parent, the slots of the segment before may lie.
void Segment::open_slots(const SlotsInPlace* resumed) {
  if (slots_plan_.mode == SnapshotMode::off) return;
  const uint64_t size_bytes = slots_plan_.size_bytes();
  slots_memory_ = resumed != nullptr ? resumed->memory : map_shared_memory(size_bytes, run_.slots_fd);
  if (resumed == nullptr) erase_slots({slots_memory_.get(), size_bytes});
  slots_ = std::make_unique<SnapshotSlots>(
      slots_plan_, run_.arena, slots_memory_,
      SlotIdentity{.run = run_identity(run_.folder),
                   .layout = identity_of(layout_),
                   .rank = group_.rank(),
                   .size = group_.size(),
                   .generation = world_.generation()},
      resumed != nullptr ? std::optional(ResumedSlot{resumed->slot, run_.state}) : std::nullopt);
}

std::vector<HeldPart> Segment::held() const {
  std::vector<HeldPart> held;
  const auto add = [&](int64_t generation, int64_t step) {
    held.push_back({{.generation = generation, .rank = group_.rank(), .size = group_.size()}, {step}});
  };
  if (doubts_memory_) {
    if (slots_ && slots_plan_.mode == SnapshotMode::slots)
      for (const SlotReader& slot : SlotReader::whole({slots_memory_.get(), slots_plan_.size_bytes()}, {}))
        add(slot.generation(), slot.step());
    return held;
  }
  if (training_->role->is_whole()) add(world_.generation(), run_.state.step);
  if (slots_)
    for (const int64_t step : slots_->steps()) add(slots_->generation_of(step), step);
  return held;
}

std::optional<SlotsInPlace> Segment::slots_of(const CommonStep& common) const {
  if (!slots_ || !run_.has_slots()) return std::nullopt;
  for (const int64_t step : slots_->steps())
    if (step == common.step && slots_->generation_of(step) == common.generation)
      return SlotsInPlace{slots_memory_, slots_plan_.size_bytes(), slots_->slot_of(step),
                          identity_of(layout_)};
  return std::nullopt;
}

void Segment::build(const Snapshot* snapshot, const SlotsInPlace* slots) {
  open_slots(slots);
  training_ = std::make_unique<Training>(
      config_, layout_, groups_, run_.arena,
      TrainingOptions{.num_channels = static_cast<int64_t>(phase_.data.channels.size()),
                      .trace = run_.io.trace,
                      .stop = run_.io.stop,
                      .clock = run_.io.clock,
                      .logs = serves() ? open_schedule(config_, peers().rank(), run_.io.env,
                                                       run_.folder.file("schedule"), run_.state.step, pushes_)
                                       : ServerLogs{},
                      .slots = slots_.get(),
                      .decisions = &run_.decisions});
  training_->allocate(run_.io.env);
  if (slots != nullptr)
    resume_in_place(*slots);
  else
    load_values(snapshot);
  training_->role->publish(run_.state);
  run_.state.data_identity = phase_.data.identity;
  training_->keep_first(run_.state);
  is_built_ = true;
  run_.flops_per_token = training_->model->flops_per_token(config_.data.seq_len);
}

void Segment::load_values(const Snapshot* snapshot) {
  const std::string checkpoint = run_.start_checkpoint();
  if (snapshot != nullptr) {
    load_snapshot(group_, *snapshot, run_.snapshot_arena(),
                  [this](const TensorSource& source) { training_->load(source); });
  } else if (!checkpoint.empty()) {
    training_->load(Checkpoint::open(run_.io.env, checkpoint));
    run_.keeper.doubt_checkpoint(run_.state.step);
    check_state("checkpoint " + checkpoint);
    run_.keeper.trust_checkpoint();
  } else if (!config_.train.init_from.empty()) {
    agree_on_weights(run_.io.env, group_, config_.train.init_from);
    const WeightsPath weights =
        load_params(run_.io.env, config_.train.init_from, *training_->model,
                    [this](const ParamSpec& param) { return training_->role->keeps(param); });
    for (const std::string& line : weights.skipped) run_.recorder->warning(line);
    check_state("train.init_from '" + config_.train.init_from + "'");
    run_.recorder->message("weights from " + config_.train.init_from);
  } else {
    training_->initialize(config_.train.seed);
  }
  if (snapshot == nullptr) run_.guards.agreed_step = run_.state.step;
}

// What does not lie in the slots is read from them.
void Segment::resume_in_place(const SlotsInPlace& slots) {
  const SlotReader reader = SlotReader::trusted({slots.memory.get(), slots.size_bytes}, slots.slot);
  training_->resume_in_place(SlotSource(reader));
}

Snapshot Segment::snapshot() const {
  return snapshot_of(training_->tensors());
}

Snapshot Segment::snapshot_of(std::vector<NamedTensor> tensors) const {
  return Snapshot(
      {.step = run_.state.step, .state = run_.state.to_json(), .tensors = std::move(tensors), .files = {}},
      run_.snapshot_arena());
}

Snapshot Segment::go_back_to(int64_t step) {
  std::vector<NamedTensor> tensors = training_->go_back_to(step, run_.state);
  return snapshot_of(std::move(tensors));
}

Segment::End Segment::end() const {
  if (run_.state.step < last_step_) return End::interrupted;
  if (run_.state.step < phase_.last_step) return End::settings;
  return run_.state.step < run_.last_step() ? End::phase : End::done;
}

void Segment::check_state(const std::string& what) {
  if (const auto name = first_not_finite(training_->tensors(), group_))
    throw NotFinite(fmt::format("{}: the tensor '{}' is not finite", what, *name));
}

// Throws NotFinite, the same on all ranks that train.
void Segment::check_step(const StepResult& result, const StepMetrics& metrics) {
  const std::string what = fault_of_step(result, metrics);
  if (what.empty() && run_.guards.is_repeated(metrics.step)) tell_transient();
  if (what.empty()) return;
  if (layout_.servers > 0) throw NotFinite(what);  // the weights are on servers, so no tensor can be named
  throw NotFinite(name_not_finite(what, training_->tensors(), group_, training_->compute));
}

void Segment::measure_peak() {
  double flops = run_.io.peak_flops(*run_.queue, training_->compute);
  peers().all_reduce(&flops, 1, Dtype::f64, "peak").wait();
  run_.peak_flops = std::max(run_.peak_flops, flops);
}

// Evaluates the held-out loss of each channel on at most max_tokens tokens (0: all). The result goes into the step's
// metrics; without `metrics` it is the evaluation before training.
bool Segment::validate_now(int64_t max_tokens, StepMetrics* metrics) {
  if (!has_validation(config_)) return true;
  const Span span(run_.io.trace, "validation", "step");
  const Doing evaluating(run_, control::ProgressKind::evaluation);
  const Evaluation evaluation =
      evaluate_channels(training_->held_out_passes(), run_.arena, phase_.data.channels, *groups_.data,
                        {.batch = config_.train.micro_batch_size,
                         .max_tokens = max_tokens,
                         .equal_passes = training_->needs_equal_passes(),
                         .give_up = [this] {
                           run_.progressed();
                           return is_asked_to_stop(run_.io, peers());
                         }});
  if (evaluation.given_up) {
    run_.recorder->message(fmt::format("step {}: the evaluation was interrupted", run_.state.step));
    return false;
  }
  if (evaluation.tokens == 0) return true;
  run_.report.set_validation(evaluation);
  if (metrics != nullptr) {
    metrics->valid_loss = run_.report.valid_loss_last;
    metrics->valid_channel_loss = run_.report.channel_loss_last;
    return true;
  }
  if (!std::isfinite(evaluation.loss)) throw NotFinite("before training: the validation loss is not finite");
  run_.report.valid_loss_first = run_.report.valid_loss_last;
  run_.report.channel_loss_first = run_.report.channel_loss_last;
  StepMetrics before;
  before.valid_loss = run_.report.valid_loss_last;
  before.valid_channel_loss = run_.report.channel_loss_last;
  run_.recorder->first_validation(before, run_.last_step());
  return true;
}

// Runs between two steps, as an evaluation does, and changes nothing that training reads.
void Segment::write_samples() {
  if (!run_.samples->due(run_.state.step)) return;
  const Span span(run_.io.trace, "samples", "step");
  const Doing sampling(run_, control::ProgressKind::other);
  for (const TextSample& sample : run_.samples->write(*training_->model, run_.arena, run_.state.step))
    run_.recorder->sample(sample);
}

void Segment::evaluate_first() {
  if (run_.state.step == 0 && config_.train.initial_eval_tokens > 0 && !serves())
    validate_now(config_.train.initial_eval_tokens, nullptr);
}

}  // namespace athanor::run
