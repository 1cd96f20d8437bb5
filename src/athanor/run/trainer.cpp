#include "athanor/run/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/base/interrupted.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/effects.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/data/loader.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/kernels/table.h"
#include "athanor/models/load.h"
#include "athanor/engine/device.h"
#include "athanor/engine/load_balancer.h"
#include "athanor/engine/parameter_servers.h"
#include "athanor/engine/replica_groups.h"
#include "athanor/engine/setup.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/run/agreement.h"
#include "athanor/run/doubtful_data.h"
#include "athanor/run/header.h"
#include "athanor/run/recorder.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_keeper.h"
#include "athanor/run/samples.h"
#include "athanor/run/save_schedule.h"
#include "athanor/run/server_run.h"
#include "athanor/run/step_metrics.h"

namespace athanor::run {
namespace {

constexpr int64_t kTracedSteps = 20;  // a trace of more is unreadable and large

// One run on one rank. Members are in the order in which a run needs them.
class Trainer {
 public:
  Trainer(const Config& config, World& world, const TrainIo& io)
      : config_(config),
        io_(io),
        folder_(config),
        keeper_(io.env, folder_, world.all()),
        threads_(threads_of_rank(config, io.ranks_of_processors)),
        pool_(threads_, [this](int thread) { bind_this_thread(io_.placement.thread(thread)); }),
        queue_(open_device(config, world.size(), io.cuda_plugin, &pool_,
                           io.rank_of_host >= 0 ? io.rank_of_host : world.rank() % io.ranks_of_host)),
        arena_(*queue_, 0, [&world](size_t bytes) { return world.allocate(bytes); }),
        device_world_(open_device_world(config, world, io.nccl_module, *queue_, arena_, io.group_options)),
        world_(device_world_ ? *device_world_ : world),
        group_(world_.all()) {}

  TrainReport run();
  NotFinite with_checkpoint(const NotFinite& error) const { return keeper_.with_checkpoint(error); }
  void failed(const std::string& reason) { keeper_.failed(reason, report_, recorder_); }
  void close_failed() noexcept;  // the closing summary, after an exception out of run()

 private:
  bool serves() const { return layout_.is_server(group_.rank()); }
  Group& peers() { return *groups_->role; }  // all workers, or all servers
  // Whether any rank was asked to stop; the same answer on all ranks. Collective.
  bool is_asked_to_stop(Group& group) const;
  void open_data();
  void bind_thread();
  void open_run();
  void load_state();
  void measure_peak();
  bool validate_now(int64_t max_tokens, StepMetrics* metrics);  // false: given up, there is no result
  void write_samples();
  void say_doubts();
  void loop();
  void check_step(const StepResult& result, const StepMetrics& metrics);
  void check_state(const std::string& what);
  void save(bool is_last);
  void renew_report(double tokens_per_second);
  void write_report(const char* status);
  void write_trace();

  Config config_;
  TrainIo io_;
  RunFolder folder_;
  RunKeeper keeper_;
  const int threads_;
  ThreadPool pool_;
  std::optional<BoundThread> bound_;  // the thread that trains, as the pool's first
  std::unique_ptr<Queue> queue_;
  Arena arena_;
  std::unique_ptr<World> device_world_;  // groups between devices; null on the CPU
  World& world_;
  Group& group_;  // all ranks
  Layout layout_;
  std::optional<Groups> groups_;
  Dataset data_;
  std::optional<Recorder> recorder_;
  std::optional<PushLog> pushes_;  // on a server, unless consistency is "sync"
  std::unique_ptr<Training> training_;
  std::optional<SampleWriter> samples_;
  TrainState state_;
  TrainReport report_;
  double peak_flops_ = 0.0;  // of all ranks together
  SaveSchedule saves_{config_.checkpoint.every_steps, config_.train.steps};
  int64_t saved_step_ = -1;
  std::vector<double> rates_;  // tokens/s of the steps of this process
};

void Trainer::open_data() {
  const auto tokenizer = open_tokenizer(config_, io_.env);
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  validate(config_);
  if (counts_hosts(config_))
    agree(group_, {{"ranks of the host", fmt::format("{}", io_.ranks_of_host)}},
          "groups of local_sgd.sync_interval need as many ranks on every host");
  layout_ = make_layout(config_, {.world_size = group_.size(), .ranks_of_host = io_.ranks_of_host});
  groups_.emplace(layout_, world_);
  data_ = open_dataset(config_, io_.env,
                       {.threads = threads_,
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = io_.tokenizing,
                        .stop = io_.stop});
  samples_.emplace(config_, data_.tokenizer);
}

bool Trainer::is_asked_to_stop(Group& group) const {
  double asked = io_.stop != nullptr && io_.stop->load() != 0 ? 1.0 : 0.0;
  group.all_reduce(&asked, 1, Dtype::f64, "stop").wait();
  return asked > 0.0;
}

// Called after the data is ready: threads that prepare data would inherit the binding.
void Trainer::bind_thread() {
  bound_.emplace(io_.placement.thread(0));
  if (bound_->refusal().empty()) return;
  recorder_->warning(bound_->refusal());
  io_.placement = {.processors = {}, .of_thread = {}, .reason = "not bound: the system refuses"};
}

// Resumes from a checkpoint, or makes a fresh start.
void Trainer::open_run() {
  state_ = first_state(config_);
  state_.data_identity = data_.identity;
  keeper_.take();
  group_.barrier("run folder");
  recorder_.emplace(io_.env, folder_.path, group_.rank(), io_.console, io_.command_line);
  report_.left_out = data_.left_out;
  for (const std::string& remark : data_.remarks) recorder_->warning(remark);
  const auto found = keeper_.find_state(config_, data_.identity, *recorder_);
  if (!found) return;
  state_ = *found;
  state_.loss_scale.window = config_.precision.loss_scale_window;
  report_.resumed_step = saved_step_ = state_.step;
}

void Trainer::load_state() {
  training_ = std::make_unique<Training>(
      config_, layout_, *groups_, arena_,
      TrainingOptions{.num_channels = static_cast<int64_t>(data_.channels.size()),
                      .trace = io_.trace,
                      .stop = io_.stop,
                      .clock = io_.clock,
                      .logs = serves() ? open_schedule(config_, peers().rank(), io_.env,
                                                       folder_.file("schedule"), state_.step, pushes_)
                                       : ServerLogs{}});
  training_->allocate(io_.env);
  if (report_.resumed_step > 0) {
    training_->load(Checkpoint::open(io_.env, keeper_.checkpoint()));
    keeper_.doubt_checkpoint(state_.step);
    check_state("checkpoint " + keeper_.checkpoint());
    keeper_.trust_checkpoint();
  } else if (!config_.train.init_from.empty()) {
    agree_on_weights(io_.env, group_, config_.train.init_from);
    const WeightsPath weights =
        load_params(io_.env, config_.train.init_from, *training_->model,
                    [this](const ParamSpec& param) { return training_->role->keeps(param); });
    for (const std::string& line : weights.skipped) recorder_->warning(line);
    check_state("train.init_from '" + config_.train.init_from + "'");
    recorder_->message("weights from " + config_.train.init_from);
  } else {
    training_->initialize(config_.train.seed);
  }
  training_->role->publish(state_);
}

void Trainer::check_state(const std::string& what) {
  if (const auto name = first_not_finite(training_->tensors(), group_))
    throw NotFinite(fmt::format("{}: the tensor '{}' is not finite", what, *name));
}

// Throws NotFinite, the same on all ranks that train.
void Trainer::check_step(const StepResult& result, const StepMetrics& metrics) {
  const std::string what = fault_of_step(result, metrics);
  if (what.empty()) return;
  if (layout_.servers > 0) throw NotFinite(what);  // the weights are on servers, so no tensor can be named
  throw NotFinite(name_not_finite(what, training_->tensors(), group_, training_->compute));
}

void Trainer::measure_peak() {
  double flops = io_.peak_flops(*queue_, training_->compute);
  peers().all_reduce(&flops, 1, Dtype::f64, "peak").wait();
  peak_flops_ = std::max(peak_flops_, flops);
}

// Evaluates the held-out loss of each channel on at most max_tokens tokens (0: all). The result goes into the step's
// metrics; without `metrics` it is the evaluation before training.
bool Trainer::validate_now(int64_t max_tokens, StepMetrics* metrics) {
  if (!has_validation(config_)) return true;
  const Span span(io_.trace, "validation", "step");
  const Evaluation evaluation =
      evaluate_channels(training_->held_out_passes(), arena_, data_.channels, *groups_->data,
                        {.batch = config_.train.micro_batch_size,
                         .max_tokens = max_tokens,
                         .equal_passes = training_->needs_equal_passes(),
                         .give_up = [this] { return is_asked_to_stop(peers()); }});
  if (evaluation.given_up) {
    recorder_->message(fmt::format("step {}: the evaluation was interrupted", state_.step));
    return false;
  }
  if (evaluation.tokens == 0) return true;
  report_.set_validation(evaluation);
  if (metrics != nullptr) {
    metrics->valid_loss = report_.valid_loss_last;
    metrics->valid_channel_loss = report_.channel_loss_last;
    return true;
  }
  if (!std::isfinite(evaluation.loss)) throw NotFinite("before training: the validation loss is not finite");
  report_.valid_loss_first = report_.valid_loss_last;
  report_.channel_loss_first = report_.channel_loss_last;
  StepMetrics before;
  before.valid_loss = report_.valid_loss_last;
  before.valid_channel_loss = report_.channel_loss_last;
  recorder_->first_validation(before, config_.train.steps);
  return true;
}

// Runs between two steps, as an evaluation does, and changes nothing that training reads.
void Trainer::write_samples() {
  if (!samples_->due(state_.step)) return;
  const Span span(io_.trace, "samples", "step");
  for (const TextSample& sample : samples_->write(*training_->model, arena_, state_.step))
    recorder_->sample(sample);
}

void Trainer::save(bool is_last) {
  if (saved_step_ == state_.step) return;
  const Span span(io_.trace, "checkpoint", "step");
  check_state(fmt::format("step {}", state_.step));
  CheckpointContent content{
      .step = state_.step, .state = state_.to_json(), .tensors = training_->tensors(), .files = {}};
  content.files.push_back({"config.resolved.toml", print_config(config_)});
  if (data_.tokenizer != nullptr)
    for (const auto& [name, text] : data_.tokenizer->files()) content.files.push_back({name, text});
  recorder_->sync();
  std::string path;
  try {
    path = write_checkpoint(io_.env, group_, folder_.checkpoints(), content);
  } catch (const IoError& error) {  // on one rank, so on all of them
    ++report_.failed_saves;
    if (!is_last) {
      // With servers the steps that are saved are fixed in advance, so the next retry is the next due save.
      if (saves_.failed(state_.step, /*may_retry=*/layout_.servers == 0))
        recorder_->warning(fmt::format("step {} could not be saved: {}; the run goes on and tries again",
                                       state_.step, error.what()));
      return;
    }
    throw IoError(
        fmt::format("step {} could not be saved: {}", state_.step, error.what()), error.code(),
        saved_step_ > 0 ? fmt::format("the same command goes on from step {}", saved_step_) : error.hint());
  }
  saves_.succeeded();
  saved_step_ = state_.step;
  keeper_.saved(path, state_.step);
  recorder_->message("saved " + path);
}

void Trainer::write_report(const char* status) {
  report_.status = status;
  report_.steps = state_.step;
  report_.tokens = state_.tokens;
  if (training_)
    report_.set_rates(rates_, training_->model->flops_per_token(config_.data.seq_len), peak_flops_);
  report_.seconds = process_age_seconds();
  report_.peak_bytes = static_cast<int64_t>(arena_.usage().peak_total);
  report_.set_resident_bytes();
  report_.set_writer();
  report_.dropped = recorder_->dropped();
  recorder_->report(report_);
}

void Trainer::renew_report(double tokens_per_second) {
  report_.steps = state_.step;
  report_.tokens = state_.tokens;
  report_.tokens_per_second = tokens_per_second;
  keeper_.renew(report_, *recorder_);
}

void Trainer::write_trace() {
  if (io_.trace == nullptr || io_.trace->stopped()) return;
  recorder_->write(fmt::format("trace/rank{}.json", group_.rank()), io_.trace->chrome_json(group_.rank()));
  io_.trace->stop();
}

void Trainer::say_doubts() {
  if (state_.step >= config_.train.steps) return;
  for (const std::string& line : config_.warnings) recorder_->warning(line);
  for (const std::string& line : doubtful_data(config_, data_)) recorder_->warning(line);
}

void Trainer::loop() {
  if (is_asked_to_stop(group_)) {
    report_.status = "interrupted";
    return;
  }
  if (serves()) {
    const auto save_due = [this](bool stop) {
      if (stop || saves_.is_due(state_.step)) save(/*is_last=*/stop || state_.step == config_.train.steps);
      renew_report(0.0);
    };
    if (serve_steps(*training_->role, config_.train.steps, state_, save_due)) report_.status = "interrupted";
    return;
  }
  const BatchReader reader(data_.channels,
                           make_sampler(data_.channels, config_.train.seed, config_.train.global_batch_size),
                           config_.train.micro_batch_size);
  std::optional<Loader> loader;
  const auto open_loader = [&] {
    const BoundThread anywhere(io_.placement.processors);  // its thread must not wait for this one
    loader.emplace(reader, state_.step + 1, config_.train.steps, training_->own_micro_batches());
  };
  open_loader();
  LoadBalancer balancer(config_, *training_);
  LossWatch watch(state_.step > 0 ? std::optional<double>(report_.valid_loss_first) : std::nullopt);
  const int64_t first_step = state_.step + 1;
  for (bool stop = false; state_.step < config_.train.steps && !stop;) {
    if (io_.profiler != nullptr) queue_->set_meter(&io_.profiler->meter);
    const double start = io_.clock();
    const StepResult result = training_->role->step(state_, [&]() -> const Batch& { return loader->next(); });
    const double seconds = io_.clock() - start;
    if (state_.step == first_step) {
      report_.first_step_seconds = process_age_seconds();
      measure_peak();  // not before: the first step should not wait for it
    }
    StepMetrics metrics =
        step_metrics(result, state_, data_.channels,
                     {.seconds = seconds,
                      .flops_per_token = training_->model->flops_per_token(config_.data.seq_len),
                      .peak_flops = peak_flops_,
                      .peak_bytes = static_cast<int64_t>(arena_.usage().peak_total),
                      .world_size = group_.size()});
    const bool warm = state_.step > first_step || config_.train.steps == first_step;
    if (warm) rates_.push_back(metrics.tokens_per_second);
    if (io_.profiler != nullptr) {
      queue_->set_meter(nullptr);  // validation is no part of a step
      if (!warm) io_.profiler->clear();
      if (warm) io_.profiler->add_step(metrics.step_seconds, result.seconds);
    }
    report_.train_loss_last = result.loss;
    stop = result.stop;
    const bool done = state_.step == config_.train.steps;
    const auto due = [&](int64_t every) { return every > 0 && state_.step % every == 0; };
    const bool evaluates = due(config_.train.eval_every) || done;
    const bool evaluated = !evaluates || validate_now(config_.train.eval_tokens, &metrics);
    if (evaluates && evaluated) measure_peak();
    recorder_->step(metrics, config_.train.steps);
    check_step(result, metrics);
    keeper_.confirm(config_.checkpoint.keep, *recorder_);
    if (const auto doubt = watch.after(state_.step, result.loss)) recorder_->warning(*doubt);
    renew_report(metrics.tokens_per_second);
    if (!stop) write_samples();
    if (!result.applied)
      recorder_->warning(fmt::format("step {}: gradients overflowed, step skipped, loss scale now {:g}",
                                     state_.step, state_.loss_scale.scale));
    const bool saves = stop || saves_.is_due(state_.step);
    if (saves) save(/*is_last=*/stop || done);
    // A request to stop may have come during the evaluation or the save; then no further step is run. Servers learn of
    // a request only in a step.
    if (!stop && !done && layout_.servers == 0 && (evaluates || saves)) {
      stop = is_asked_to_stop(peers());
      if (stop) save(/*is_last=*/true);
    }
    if (done && !evaluated)
      recorder_->warning(
          fmt::format("the last evaluation was interrupted: athanor evaluate {}", folder_.path));
    if ((state_.step - first_step + 1 == kTracedSteps || done || stop)) write_trace();
    if (balancer.after_step(state_.step, result.seconds, !done && !stop)) {
      open_loader();
      recorder_->message(fmt::format("step {}: load balancing: micro-batches per rank are {}", state_.step,
                                     fmt::join(balancer.counts(), ", ")));
    }
    if (stop && !done) report_.status = "interrupted";
  }
  if (io_.profiler != nullptr)
    io_.profiler->ceilings = {peak_flops_ / peers().size(), measure_copy_bandwidth(*queue_)};
}

// Shows nothing if the header was not shown yet: the error itself is enough.
void Trainer::close_failed() noexcept {
  if (!recorder_ || report_.params == 0) return;
  report_.status = "failed";
  recorder_->fail(ending_of(report_, config_, state_.step, saved_step_));
}

TrainReport Trainer::run() {
  report_.run_folder = folder_.path;
  report_.ranks = group_.size();
  try {
    open_data();
  } catch (const Interrupted&) {  // the next line tells the other ranks
  }
  if (is_asked_to_stop(group_)) {
    report_.status = "interrupted";
    if (io_.console != nullptr)
      io_.console->message("interrupted before the first step: the same command starts again");
    return report_;
  }
  agree(group_, data_facts(data_.identity),
        "all ranks train on the same tokenizer and texts: copy them to all hosts");
  const MemoryPlan plan = plan_that_fits({.config = config_,
                                          .num_channels = static_cast<int64_t>(data_.channels.size()),
                                          .rank = group_.rank(),
                                          .world_size = group_.size(),
                                          .layout = layout_},
                                         io_.ranks_of_host);
  open_run();
  if (state_.step >= config_.train.steps) {
    keeper_.settle(config_.checkpoint.keep, *recorder_);
    return keeper_.idle_report(state_, config_.train.steps, group_.size(), *recorder_);
  }
  bind_thread();
  layout_.recompute = plan.layout.recompute;
  report_.planned_bytes = static_cast<int64_t>(plan.usage.peak_total);
  if (state_.step > 0 && io_.env.exists(folder_.file("report.json")))
    report_.restore(io_.env.read_text(folder_.file("report.json")));
  keeper_.begin();
  write_report("running");
  group_.barrier("memory");  // all ranks measure the free memory before any rank allocates
  load_state();
  report_.params = training_->model->num_params();
  recorder_->header("athanor · " + config_.train.name,
                    header_rows(config_, *training_, data_.channels, plan, *queue_, io_.placement,
                                state_.step, folder_.path));
  say_doubts();
  recorder_->open(state_.step, print_config(config_));
  keeper_.trains();
  if (state_.step == 0 && config_.train.initial_eval_tokens > 0 && !serves())
    validate_now(config_.train.initial_eval_tokens, nullptr);
  write_report("running");
  loop();
  training_->role->settle();
  keeper_.settle(config_.checkpoint.keep, *recorder_);
  if (saved_step_ == state_.step && group_.rank() == 0)
    report_.digest = Checkpoint::open(io_.env, keeper_.checkpoint()).digest();
  write_report(report_.status == "interrupted" ? "interrupted" : "finished");
  recorder_->finish(report_, ending_of(report_, config_, state_.step, saved_step_));
  return report_;
}

}  // namespace

int threads_of_rank(const Config& config, int ranks_of_processors) {
  if (config.train.threads > max_threads())
    throw ConfigError(fmt::format("train.threads: got {}, expected at most {} on {} processors",
                                  config.train.threads, max_threads(), num_usable_cpus()));
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  return std::max(1, num_usable_cpus() / std::max(1, ranks_of_processors));
}

TrainReport train(const Config& config, World& world, const TrainIo& io) {
  std::string note;
  const Config agreed = agree_on_settings(config, world.all(), io.highest_isa, &note);
  if (!note.empty() && io.console != nullptr) io.console->message(note);
  Trainer trainer(agreed, world, io);
  try {
    return trainer.run();
  } catch (const NotFinite& error) {
    const NotFinite whole = trainer.with_checkpoint(error);
    trainer.failed(whole.what());
    trainer.close_failed();
    throw NotFinite(whole);
  } catch (const std::exception& error) {
    trainer.failed(error.what());
    trainer.close_failed();
    throw;
  }
}

}  // namespace athanor::run
