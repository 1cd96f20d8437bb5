#include "athanor/train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/data/loader.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/kernels/peak.h"
#include "athanor/kernels/table.h"
#include "athanor/models/load.h"
#include "athanor/train/device.h"
#include "athanor/train/grain_dealer.h"
#include "athanor/train/header.h"
#include "athanor/train/islands.h"
#include "athanor/train/layout.h"
#include "athanor/train/memory_plan.h"
#include "athanor/train/recorder.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/served.h"
#include "athanor/train/server_run.h"
#include "athanor/train/setup.h"

namespace athanor {
namespace {

constexpr uint64_t kAbsurd = 16;      // times the memory there is: nobody waits for the exact need
constexpr int64_t kTracedSteps = 20;  // a trace of more is unreadable and large

// One run on one rank; the members are in the order in which a run comes to need them.
class Trainer {
 public:
  Trainer(const Config& config, World& world, const TrainIo& io)
      : config_(config),
        io_(io),
        folder_(config),
        threads_(threads_of_rank(config, io.ranks_of_host)),
        pool_(threads_, [this](int thread) { bind_this_thread(io_.placement.thread(thread)); }),
        queue_(open_device(config, world.size(), io.cuda_plugin, &pool_, world.rank() % io.ranks_of_host)),
        device_world_(open_device_world(config, world, io.nccl_module, *queue_, arena_, io.group_options)),
        world_(device_world_ ? *device_world_ : world),
        group_(world_.all()) {}

  TrainReport run();

 private:
  std::string step_path() const {
    return join_path(folder_.checkpoints(), fmt::format("step_{:08d}", state_.step));
  }

  bool serves() const { return places_ && places_->serves(); }
  // Whether the state after this step is saved: all ranks say the same.
  bool is_saved(bool stop) const {
    const int64_t every = config_.checkpoint.every_steps;
    return stop || state_.step == config_.train.steps || (every > 0 && state_.step % every == 0);
  }
  void open_data();
  void bind_thread();
  void open_run();
  void load_state();
  void measure_peak();
  void validate_now(int64_t max_tokens, StepMetrics* metrics);
  void loop();
  void save();
  void write_report(const char* status);
  void write_trace();
  StepMetrics to_metrics(const StepResult& result, double seconds) const;

  Config config_;
  TrainIo io_;
  RunFolder folder_;
  std::optional<FolderLock> lock_;  // rank 0
  const int threads_;
  ThreadPool pool_;
  std::optional<BoundThread> bound_;  // the thread that trains, as the pool's first
  std::unique_ptr<Queue> queue_;
  Arena arena_{*queue_};
  std::unique_ptr<World> device_world_;  // whose groups reach the devices of other ranks; null on the CPU
  World& world_;
  Group& group_;  // all ranks
  std::optional<ServerPlaces> places_;
  std::optional<Mesh> mesh_;  // of those that train, or serve, once the config is known to fit them
  Dataset data_;
  std::optional<Recorder> recorder_;
  std::optional<PushLog> pushes_;  // of a server without common updates
  std::unique_ptr<Training> training_;
  TrainState state_;
  TrainReport report_;
  double peak_flops_ = 0.0;  // of all ranks together
  int64_t saved_step_ = -1;
  std::vector<double> rates_;  // tokens/s of the steps of this process
};

void Trainer::open_data() {
  const auto tokenizer = open_tokenizer(config_, io_.env);
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  validate(config_);
  check_ranks(config_, group_.size());
  if (config_.parallel.servers > 0) places_.emplace(config_, world_);
  mesh_.emplace(places_ ? places_->shape() : mesh_shape(config_, group_.size()),
                places_ ? places_->peers() : world_);
  if (config_.parallel.sync_every > 0)
    config_.parallel.sync_group = island_ranks(config_, mesh_->size(Axis::dp), io_.ranks_of_host);
  data_ = open_dataset(config_, io_.env,
                       {.threads = threads_,
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = io_.tokenizing});
}

// Not before the data is there: what makes it starts threads that would inherit the binding.
void Trainer::bind_thread() {
  bound_.emplace(io_.placement.thread(0));
  if (bound_->refusal().empty()) return;
  recorder_->warning(bound_->refusal());
  io_.placement = {.processors = {}, .of_thread = {}, .reason = "not bound: the system refuses"};
}

// Finds what is there: a checkpoint to go on from, or a fresh start.
void Trainer::open_run() {
  state_ = first_state(config_);
  state_.data_identity = data_.identity;
  io_.env.create_folders(folder_.checkpoints());
  if (group_.rank() == 0) lock_.emplace(lock_run(folder_.path));
  recorder_.emplace(io_.env, folder_.path, group_.rank(), io_.console, io_.command_line);
  report_.left_out = data_.left_out;
  for (const std::string& remark : data_.remarks) recorder_->warning(remark);
  // What a writer that died left behind, and what it had moved away, is put right before anyone looks.
  if (group_.rank() == 0) rotate_checkpoints(io_.env, folder_.checkpoints(), /*keep=*/0);
  group_.barrier("run folder");
  std::vector<std::string> skipped;
  const auto newest = newest_checkpoint(io_.env, folder_.checkpoints(), &skipped);
  for (const std::string& line : skipped) recorder_->warning(line);
  if (!newest) return;
  const Checkpoint checkpoint = Checkpoint::open(io_.env, *newest);
  const Config then = parse_config(checkpoint.file_text("config.resolved.toml"), *newest);
  const TrainState found = TrainState::from_json(checkpoint.state());
  check_resumable(then, config_, found.data_identity, data_.identity);
  state_ = found;
  state_.loss_scale.window = config_.precision.loss_scale_window;
  report_.resumed_step = saved_step_ = state_.step;
  recorder_->message(fmt::format("resumed from {}", *newest));
}

void Trainer::load_state() {
  training_ = std::make_unique<Training>(config_, static_cast<int64_t>(data_.channels.size()),
                                         data_group(*mesh_), arena_, io_.trace, io_.stop);
  if (places_)
    training_->serve(*places_, serves() ? open_schedule(config_, mesh_->world().rank(), io_.env,
                                                        folder_.file("schedule"), state_.step, pushes_)
                                        : ServerLogs{});
  training_->lay_out(*mesh_);
  training_->allocate(io_.env);
  if (report_.resumed_step > 0) {
    training_->load(Checkpoint::open(io_.env, step_path()));
  } else if (!config_.train.init_from.empty()) {
    load_params(io_.env, config_.train.init_from, *training_->model,
                [this](const Param& param) { return training_->keeps(param); });
    recorder_->message("weights from " + config_.train.init_from);
  } else {
    training_->initialize(config_.train.seed);
  }
  training_->publish(state_);
}

void Trainer::measure_peak() {
  double flops = measure_peak_flops(*queue_, training_->compute);
  mesh_->world().all().all_reduce(&flops, 1, Dtype::f64, "peak").wait();
  peak_flops_ = std::max(peak_flops_, flops);
}

// Held-out loss per channel, of at most max_tokens each (0: all): into the step's metrics, or, without a
// step, the one before training.
void Trainer::validate_now(int64_t max_tokens, StepMetrics* metrics) {
  if (config_.data.valid_fraction <= 0.0) return;
  const Span span(io_.trace, "validation", "step");
  const Evaluation evaluation =
      evaluate_channels(*training_->model, arena_, data_.channels, data_group(*mesh_),
                        {.batch = config_.train.micro_batch,
                         .max_tokens = max_tokens,
                         .equal_passes = training_->needs_equal_passes(),
                         .passes = training_->held_out_passes()});
  report_.valid_loss_last = evaluation.loss;
  report_.channel_loss_last.clear();
  for (const ChannelScore& score : evaluation.channels)
    if (score.tokens > 0) report_.channel_loss_last.emplace_back(score.name, score.loss);
  if (metrics != nullptr) {
    metrics->valid_loss = report_.valid_loss_last;
    metrics->valid_channel_loss = report_.channel_loss_last;
    return;
  }
  report_.valid_loss_first = report_.valid_loss_last;
  report_.channel_loss_first = report_.channel_loss_last;
  std::string text = fmt::format("before training: held-out loss {:.4f}", evaluation.loss);
  for (const auto& [name, loss] : report_.channel_loss_last) text += fmt::format(", {} {:.4f}", name, loss);
  recorder_->message(text);
}

void Trainer::save() {
  if (saved_step_ == state_.step) return;
  const Span span(io_.trace, "checkpoint", "step");
  CheckpointContent content{
      .step = state_.step, .state = state_.to_json(), .tensors = training_->tensors(), .files = {}};
  content.files.push_back({"config.resolved.toml", print_config(config_)});
  if (data_.tokenizer != nullptr) content.files.push_back({"tokenizer.json", data_.tokenizer->json()});
  recorder_->sync();
  const std::string path = write_checkpoint(io_.env, group_, folder_.checkpoints(), content);
  if (group_.rank() == 0)
    rotate_checkpoints(io_.env, folder_.checkpoints(), config_.checkpoint.keep, /*known_good=*/path);
  saved_step_ = state_.step;
  recorder_->message("saved " + path);
}

StepMetrics Trainer::to_metrics(const StepResult& result, double seconds) const {
  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.tokens = state_.tokens;
  metrics.loss = result.loss;
  for (size_t c = 0; c < data_.channels.size(); ++c)  // a channel without tokens in this step has no loss
    if (std::isfinite(result.channel_loss[c]))
      metrics.channel_loss.emplace_back(data_.channels[c].name(), result.channel_loss[c]);
  metrics.grad_norm = result.grad_norm;
  metrics.lr = result.lr;
  metrics.loss_scale = result.loss_scale;
  metrics.tokens_per_second = static_cast<double>(result.tokens) / seconds;
  if (peak_flops_ > 0.0)
    metrics.mfu =
        metrics.tokens_per_second * training_->model->flops_per_token(config_.data.seq_len) / peak_flops_;
  metrics.step_seconds = seconds;
  metrics.data_seconds = result.seconds.data;
  metrics.comm_seconds = result.seconds.comm;
  metrics.peak_bytes = static_cast<int64_t>(arena_.usage().peak_total);
  metrics.world_size = group_.size();
  if (const auto& experts = result.experts)
    metrics.experts = ExpertMetrics{experts->max_over_mean, experts->layers, experts->drop_share,
                                    experts->aux_loss, experts->z_loss};
  return metrics;
}

void Trainer::write_report(const char* status) {
  report_.status = status;
  report_.steps = state_.step;
  report_.tokens = state_.tokens;
  report_.set_rates(rates_, training_->model->flops_per_token(config_.data.seq_len), peak_flops_);
  report_.seconds = process_age_seconds();
  report_.peak_bytes = static_cast<int64_t>(arena_.usage().peak_total);
  report_.set_resident_bytes();
  recorder_->report(report_);
}

void Trainer::write_trace() {
  if (io_.trace == nullptr || io_.trace->stopped()) return;
  io_.env.create_folders(folder_.file("trace"));
  io_.env.write_atomically(folder_.file(fmt::format("trace/rank{}.json", group_.rank())),
                           io_.trace->chrome_json(group_.rank()));
  io_.trace->stop();
}

void Trainer::loop() {
  if (state_.step >= config_.train.steps) {
    recorder_->message(
        fmt::format("step {} is done, train.steps is {}: nothing to do", state_.step, config_.train.steps));
    return;
  }
  if (serves()) {
    const auto save_due = [this](bool stop) {
      if (is_saved(stop)) save();
    };
    if (serve_steps(*training_->server, config_.train.steps, state_, save_due))
      report_.status = "interrupted";
    return;
  }
  const BatchReader reader(data_.channels,
                           make_sampler(data_.channels, config_.train.seed, config_.train.global_batch),
                           config_.train.micro_batch);
  std::optional<Loader> loader;
  const auto open_loader = [&] {
    const BoundThread anywhere(io_.placement.processors);  // its thread must not wait for this one
    loader.emplace(reader, state_.step + 1, config_.train.steps, training_->own_grains());
  };
  open_loader();
  GrainDealer dealer(config_, *training_);
  const int64_t first_step = state_.step + 1;
  for (bool stop = false; state_.step < config_.train.steps && !stop;) {
    if (io_.profiler != nullptr) queue_->set_meter(&io_.profiler->meter);
    const double start = now_seconds();
    const StepResult result =
        training_->runner->run(state_, [&]() -> const Batch& { return loader->next(); });
    const double seconds = now_seconds() - start;
    if (state_.step == first_step) {
      report_.first_step_seconds = process_age_seconds();
      measure_peak();  // not before: the first step should not wait for it
    }
    StepMetrics metrics = to_metrics(result, seconds);
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
    if (due(config_.train.eval_every) || done) {
      validate_now(config_.train.eval_tokens, &metrics);
      measure_peak();
    }
    recorder_->step(metrics, config_.train.steps);
    if (!result.applied)
      recorder_->warning(fmt::format("step {}: gradients overflowed, step skipped, loss scale now {:g}",
                                     state_.step, state_.loss_scale.scale));
    if (is_saved(stop)) save();
    if ((state_.step - first_step + 1 == kTracedSteps || done || stop)) write_trace();
    if (dealer.after_step(state_.step, result.seconds, !done && !stop)) {
      open_loader();
      recorder_->message(
          fmt::format("step {}: grains by speed: {}", state_.step, fmt::join(dealer.counts(), ", ")));
    }
    if (stop && !done) report_.status = "interrupted";
  }
  if (io_.profiler != nullptr)
    io_.profiler->ceilings = {peak_flops_ / mesh_->world().size(), measure_copy_bandwidth(*queue_)};
}

TrainReport Trainer::run() {
  open_data();
  open_run();
  bind_thread();
  const uint64_t available = available_memory_bytes();
  const MemoryPlan plan = plan_recompute({.config = config_,
                                          .num_channels = static_cast<int64_t>(data_.channels.size()),
                                          .rank = group_.rank(),
                                          .world_size = group_.size(),
                                          .stop_bytes = kAbsurd * available});
  check_fits(plan, io_.ranks_of_host, available);
  config_.parallel.recompute = plan.request.config.parallel.recompute;
  group_.barrier("memory");  // what other ranks allocate must not look like memory that is missing
  load_state();
  report_.run_folder = folder_.path;
  report_.ranks = group_.size();
  report_.params = training_->model->num_params();
  report_.planned_bytes = static_cast<int64_t>(plan.usage.peak_total);
  recorder_->header("athanor · " + config_.train.name,
                    header_rows(config_, *training_, data_.channels, plan, *queue_, io_.placement,
                                group_.size(), state_.step));
  recorder_->open(state_.step, print_config(config_));
  if (state_.step == 0) {
    if (config_.train.first_eval_tokens > 0 && !serves())
      validate_now(config_.train.first_eval_tokens, nullptr);
    write_report("running");
  } else if (io_.env.exists(folder_.file("report.json"))) {
    report_.restore(io_.env.read_text(folder_.file("report.json")));
  }
  loop();
  training_->settle();
  if (saved_step_ == state_.step && group_.rank() == 0)
    report_.digest = Checkpoint::open(io_.env, step_path()).digest();
  write_report(report_.status == "interrupted" ? "interrupted" : "finished");
  recorder_->finish(report_);
  return report_;
}

}  // namespace

int threads_of_rank(const Config& config, int ranks_of_host) {
  if (config.train.threads > max_threads())
    throw ConfigError(fmt::format("train.threads: got {}, expected at most {} on {} processors",
                                  config.train.threads, max_threads(), num_usable_cpus()));
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  return std::max(1, num_usable_cpus() / std::max(1, ranks_of_host));
}

TrainReport train(const Config& config, World& world, const TrainIo& io) {
  return Trainer(config, world, io).run();
}

}  // namespace athanor
