#include "athanor/train/trainer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "athanor/base/clock.h"
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
#include "athanor/observe/tensorboard.h"
#include "athanor/train/memory_plan.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/setup.h"

namespace athanor {
namespace {

constexpr int64_t kTracedSteps = 20;  // a trace of more is unreadable and large
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double median(std::vector<double> values) {
  if (values.empty()) return kNone;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

// One run on one rank. The public function below is its constructor, setup and loop.
class Trainer {
 public:
  Trainer(const Config& config, Group& group, const TrainIo& io)
      : config_(config),
        group_(group),
        io_(io),
        folder_(config),
        pool_(num_threads()),
        queue_(open_queue()) {}

  TrainReport run();

 private:
  bool lead() const { return group_.rank() == 0; }
  int num_threads() const {
    if (config_.train.threads > 0) return static_cast<int>(config_.train.threads);
    return std::max(1, num_usable_cpus() / std::max(1, io_.ranks_of_host));
  }
  std::unique_ptr<Queue> open_queue() {
    if (config_.train.device == "cuda")
      throw ConfigError(
          "train.device: got 'cuda', expected auto or cpu: this program was built without CUDA");
    return make_cpu_queue(&pool_, config_.train.isa == "auto" ? best_isa() : parse_isa(config_.train.isa));
  }
  void open_data();
  void open_run();
  void load_weights();
  void print_header(const MemoryPlan& plan);
  void measure_peak();
  void validate_now(StepMetrics* metrics);
  void save();
  void write_report(const char* status);
  void write_trace();
  StepMetrics to_metrics(const StepResult& result, double seconds);
  std::vector<NamedTensor> named_tensors();
  void say(const std::string& text) {
    if (io_.console != nullptr) io_.console->message(text);
  }

  Config config_;
  Group& group_;
  TrainIo io_;
  RunFolder folder_;
  ThreadPool pool_;
  std::unique_ptr<Queue> queue_;
  Arena arena_{*queue_};
  Trace trace_;
  Dataset data_;
  std::unique_ptr<Training> training_;
  TrainState state_;
  TrainReport report_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<TensorBoardWriter> board_;
  double peak_flops_ = 0.0;  // of all ranks together
  int64_t saved_step_ = -1;
  std::vector<double> rates_;
};

void Trainer::open_data() {
  const auto tokenizer = open_tokenizer(config_, io_.env);
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  validate(config_);
  data_ = open_dataset(config_, io_.env,
                       {.threads = num_threads(),
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = {}});
  if (config_.parallel.dp != 0 && config_.parallel.dp != group_.size())
    throw ConfigError(fmt::format("parallel.dp: got {} with {} ranks, expected \"auto\" or {}",
                                  config_.parallel.dp, group_.size(), group_.size()));
  const int64_t grains =
      (config_.train.global_batch + config_.train.micro_batch - 1) / config_.train.micro_batch;
  if (group_.size() > grains)
    throw ConfigError(
        fmt::format("parallel.dp: got {} ranks for {} grains in a step (train.global_batch {} / "
                    "train.micro_batch {}), expected at most {}",
                    group_.size(), grains, config_.train.global_batch, config_.train.micro_batch, grains),
        "start fewer ranks or lower train.micro_batch");
}

// Finds what is there: a checkpoint to go on from, or a fresh start.
void Trainer::open_run() {
  state_ = first_state(config_);
  state_.data_identity = data_.identity;
  if (lead()) io_.env.create_folders(folder_.checkpoints());
  group_.barrier("run folder");
  std::vector<std::string> skipped;
  const auto newest = newest_checkpoint(io_.env, folder_.checkpoints(), &skipped);
  if (lead())
    for (const std::string& line : skipped)
      if (io_.console != nullptr) io_.console->warning(line);
  if (!newest) return;
  const Checkpoint checkpoint = Checkpoint::open(io_.env, *newest);
  const Config then = parse_config(checkpoint.file_text("config.resolved.toml"), *newest);
  const TrainState found = TrainState::from_json(checkpoint.state());
  check_resumable(then, config_, found.data_identity, data_.identity);
  state_ = found;
  state_.loss_scale.window = config_.precision.loss_scale_window;
  report_.resumed_step = state_.step;
  saved_step_ = state_.step;
  say(fmt::format("resumed from step {} ({})", state_.step, *newest));
}

void Trainer::load_weights() {
  training_ = std::make_unique<Training>(config_, static_cast<int64_t>(data_.channels.size()), group_, arena_,
                                         config_.train.trace ? &trace_ : nullptr, io_.stop);
  training_->allocate();
  if (report_.resumed_step > 0) {
    const Checkpoint checkpoint = Checkpoint::open(
        io_.env, join_path(folder_.checkpoints(), fmt::format("step_{:08d}", report_.resumed_step)));
    for (const auto& param : training_->model->params()) {
      std::vector<float> values(static_cast<size_t>(param->numel()));
      checkpoint.read("model." + param->name(), values.data());
      param->store(values.data());
    }
    for (auto& optimizer_state : training_->optimizer->states()) {
      Tensor tensor = optimizer_state.tensor;
      checkpoint.read(optimizer_state.name + "." + optimizer_state.param->name(), tensor.data<float>());
    }
  } else if (!config_.train.init_from.empty()) {
    load_params(io_.env, config_.train.init_from, *training_->model);
    say("weights from " + config_.train.init_from);
  } else {
    training_->model->initialize(config_.train.seed);
  }
}

void Trainer::measure_peak() {
  double flops = measure_peak_flops(*queue_, training_->compute);
  group_.all_reduce(&flops, 1, Dtype::f64, "peak").wait();
  peak_flops_ = std::max(peak_flops_, flops);
}

void Trainer::print_header(const MemoryPlan& plan) {
  if (io_.console == nullptr) return;
  const ModelConfig& m = config_.model;
  const Model& model = *training_->model;
  const MemoryUsage& u = plan.usage;
  const auto bytes = [&](Category c) {
    return human_bytes(static_cast<double>(u.peak[static_cast<size_t>(c)]));
  };
  Rows rows = {
      {"model", fmt::format("{}{}: {} layers, width {}, {} heads, {} kv, ffn {}, vocab {}", m.family,
                            m.preset.empty() ? "" : " (" + m.preset + ")", m.layers, m.width, m.heads,
                            m.kv_heads, m.ffn_width, m.vocab_size)},
      {"parameters", fmt::format("{} ({})", human_count(static_cast<double>(model.num_params())),
                                 with_commas(model.num_params()))},
      {"compute", fmt::format("{}, {} FLOPs per token, {} on {} threads", config_.precision.compute,
                              human_count(model.flops_per_token(config_.data.seq_len)),
                              isa_name(queue_->isa()), pool_.num_threads())},
      {"layout", fmt::format("dp {} (reduce {}), {} grains of {} x {} tokens, recompute {}", group_.size(),
                             config_.parallel.reduce, training_->num_grains, config_.train.micro_batch,
                             config_.data.seq_len, config_.parallel.recompute)},
      {"memory",
       fmt::format("{} a rank: parameters {}, gradients {}, optimizer {}, activations {}, workspace {}",
                   human_bytes(static_cast<double>(u.peak_total)), bytes(Category::parameters),
                   bytes(Category::gradients), bytes(Category::optimizer), bytes(Category::activations),
                   bytes(Category::workspace))}};
  for (const Channel& channel : data_.channels)
    rows.emplace_back(
        "data", fmt::format("{}: {} tokens, {} held out, weight {:g}", channel.name(),
                            human_count(static_cast<double>(channel.num_tokens())),
                            human_count(static_cast<double>(channel.num_valid_tokens())), channel.weight()));
  rows.emplace_back("run",
                    fmt::format("{}, steps {} to {}", folder_.path, state_.step + 1, config_.train.steps));
  io_.console->header("athanor · " + config_.train.name, rows);
}

// Held-out loss per channel; into the step's metrics, and into the report as the first or the last one seen.
void Trainer::validate_now(StepMetrics* metrics) {
  if (config_.data.valid_fraction <= 0.0) return;
  const Span span(config_.train.trace ? &trace_ : nullptr, "validation", "step");
  const Evaluation evaluation =
      evaluate_channels(*training_->model, arena_, data_.channels, group_,
                        {.batch = config_.train.micro_batch, .max_tokens = config_.train.eval_tokens});
  report_.valid_loss_last = evaluation.loss;
  report_.channel_loss_last.clear();
  for (const ChannelScore& score : evaluation.channels)
    if (score.tokens > 0) report_.channel_loss_last.emplace_back(score.name, score.loss);
  if (metrics == nullptr) {
    report_.valid_loss_first = report_.valid_loss_last;
    report_.channel_loss_first = report_.channel_loss_last;
    std::string text = fmt::format("before training: held-out loss {:.4f}", evaluation.loss);
    for (const auto& [name, loss] : report_.channel_loss_last) text += fmt::format(", {} {:.4f}", name, loss);
    say(text);
    return;
  }
  metrics->valid_loss = report_.valid_loss_last;
  metrics->valid_channel_loss = report_.channel_loss_last;
}

std::vector<NamedTensor> Trainer::named_tensors() {
  std::vector<NamedTensor> tensors;
  for (const auto& param : training_->model->params())
    tensors.push_back({"model." + param->name(), param->master()});
  for (const auto& s : training_->optimizer->states())
    tensors.push_back({s.name + "." + s.param->name(), s.tensor});
  return tensors;
}

void Trainer::save() {
  if (saved_step_ == state_.step) return;
  const Span span(config_.train.trace ? &trace_ : nullptr, "checkpoint", "step");
  CheckpointContent content{
      .step = state_.step, .state = state_.to_json(), .tensors = named_tensors(), .files = {}};
  content.files.push_back({"config.resolved.toml", print_config(config_)});
  if (data_.tokenizer != nullptr) content.files.push_back({"tokenizer.json", data_.tokenizer->json()});
  if (metrics_ != nullptr) metrics_->sync();
  const std::string path = write_checkpoint(io_.env, group_, folder_.checkpoints(), content);
  if (lead()) rotate_checkpoints(io_.env, folder_.checkpoints(), config_.checkpoint.keep);
  saved_step_ = state_.step;
  say("saved " + path);
}

StepMetrics Trainer::to_metrics(const StepResult& result, double seconds) {
  StepMetrics metrics{.step = state_.step,
                      .tokens = state_.tokens,
                      .loss = result.loss,
                      .channel_loss = {},
                      .grad_norm = result.grad_norm,
                      .lr = result.lr,
                      .loss_scale = result.loss_scale,
                      .tokens_per_second = static_cast<double>(result.tokens) / seconds,
                      .mfu = 0.0,
                      .step_seconds = seconds,
                      .data_seconds = result.data_seconds,
                      .comm_seconds = result.comm_seconds,
                      .peak_bytes = static_cast<int64_t>(arena_.usage().peak_total),
                      .world_size = group_.size(),
                      .valid_loss = std::nullopt,
                      .valid_channel_loss = {}};
  for (size_t c = 0; c < data_.channels.size(); ++c)
    if (std::isfinite(result.channel_loss[c]))
      metrics.channel_loss.emplace_back(data_.channels[c].name(), result.channel_loss[c]);
  if (peak_flops_ > 0.0)
    metrics.mfu =
        metrics.tokens_per_second * training_->model->flops_per_token(config_.data.seq_len) / peak_flops_;
  return metrics;
}

void Trainer::write_report(const char* status) {
  report_.run_folder = folder_.path;
  report_.status = status;
  report_.steps = state_.step;
  report_.tokens = state_.tokens;
  report_.tokens_per_second = median(rates_);
  report_.mfu = peak_flops_ > 0.0 ? report_.tokens_per_second *
                                        training_->model->flops_per_token(config_.data.seq_len) / peak_flops_
                                  : kNone;
  report_.seconds = process_age_seconds();
  report_.peak_bytes = static_cast<int64_t>(arena_.usage().peak_total);
  report_.resident_bytes = resident_bytes();
  if (lead()) io_.env.write_atomically(folder_.file("report.json"), to_json(report_) + "\n");
}

void Trainer::write_trace() {
  if (trace_.stopped()) return;
  io_.env.create_folders(folder_.file("trace"));
  io_.env.write_atomically(folder_.file(fmt::format("trace/rank{}.json", group_.rank())),
                           trace_.chrome_json(group_.rank()));
  trace_.stop();
}

TrainReport Trainer::run() {
  open_data();
  open_run();
  load_weights();
  const MemoryPlan plan =
      plan_memory(config_, static_cast<int64_t>(data_.channels.size()), group_.rank(), group_.size());
  report_.ranks = group_.size();
  report_.params = training_->model->num_params();
  report_.planned_bytes = static_cast<int64_t>(plan.usage.peak_total);
  report_.valid_loss_first = report_.valid_loss_last = kNone;
  print_header(plan);
  measure_peak();
  if (lead()) {
    metrics_ = std::make_unique<MetricsWriter>(io_.env, folder_.file("metrics.jsonl"), state_.step);
    board_ = std::make_unique<TensorBoardWriter>(
        io_.env, folder_.path,
        TensorBoardId{.wall_seconds = wall_seconds(), .host = "localhost", .pid = getpid()}, state_.step);
    io_.env.write_atomically(folder_.file("config.resolved.toml"), print_config(config_));
  }
  if (state_.step == 0) {
    validate_now(nullptr);
    write_report("running");
  } else if (io_.env.exists(folder_.file("report.json"))) {
    restore_first_losses(io_.env.read_text(folder_.file("report.json")), report_);
  }

  const BatchReader reader(data_.channels,
                           make_sampler(data_.channels, config_.train.seed, config_.train.global_batch),
                           config_.train.micro_batch);
  const auto [first, last] = training_->parallel->grains_of_step(training_->num_grains);
  std::vector<int64_t> grains;
  for (int64_t grain = first; grain < last; ++grain) grains.push_back(grain);
  std::optional<Loader> loader;
  if (state_.step < config_.train.steps) loader.emplace(reader, state_.step + 1, config_.train.steps, grains);

  const int64_t first_step = state_.step + 1;
  while (state_.step < config_.train.steps && !report_.interrupted) {
    const double start = now_seconds();
    const StepResult result =
        training_->runner->run(state_, [&]() -> const Batch& { return loader->next(); });
    StepMetrics metrics = to_metrics(result, now_seconds() - start);
    if (state_.step == first_step) report_.first_step_seconds = process_age_seconds();
    if (state_.step > first_step || config_.train.steps == first_step)
      rates_.push_back(metrics.tokens_per_second);
    report_.train_loss_last = result.loss;
    report_.interrupted = result.stop;
    const bool done = state_.step == config_.train.steps;
    const bool evaluate = config_.train.eval_every > 0 && state_.step % config_.train.eval_every == 0;
    if (evaluate || done) {
      validate_now(&metrics);
      measure_peak();
    }
    if (lead()) {
      metrics_->write(metrics);
      board_->write(metrics, wall_seconds());
      board_->flush();
    }
    if (io_.console != nullptr) {
      io_.console->step(metrics, config_.train.steps);
      if (!result.applied)
        io_.console->warning(fmt::format("step {}: gradients overflowed, step skipped, loss scale now {:g}",
                                         state_.step, state_.loss_scale.scale));
      if (metrics.valid_loss) io_.console->validation(metrics, config_.train.steps);
    }
    const int64_t every = config_.checkpoint.every_steps;
    if ((every > 0 && state_.step % every == 0) || done || report_.interrupted) save();
    if (config_.train.trace && (state_.step - first_step + 1 == kTracedSteps || done || report_.interrupted))
      write_trace();
  }
  save();  // a run that was finished before it started has its checkpoint already
  if (lead())
    report_.digest =
        Checkpoint::open(io_.env, join_path(folder_.checkpoints(), fmt::format("step_{:08d}", state_.step)))
            .digest();
  write_report(report_.interrupted ? "interrupted" : "finished");
  if (io_.console != nullptr) io_.console->finish();
  return report_;
}

TrainReport train(const Config& config, Group& group, const TrainIo& io) {
  return Trainer(config, group, io).run();
}

}  // namespace athanor
