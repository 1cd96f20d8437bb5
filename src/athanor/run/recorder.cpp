#include "athanor/run/recorder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/observe/loss_curves.h"
#include "athanor/observe/plot.h"
#include "athanor/observe/report.h"
#include "athanor/run/begun_phases.h"
#include "athanor/run/run_folder.h"

namespace athanor::run {
namespace {

// Enough for every step of a long run.
constexpr uint64_t kLogBytes = uint64_t{64} << 20;
constexpr int kOlderLogs = 15;
// Opening reads the whole file, so a file that cannot be opened is not tried in every step.
constexpr int64_t kOpenEverySteps = 64;
constexpr size_t kWorthDrawing = 8;  // steps

std::string steps_text(int64_t first, int64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

std::string log_path(Env& env, const std::string& folder, int rank) {
  env.create_folders(join_path(folder, "logs"));
  return join_path(folder, fmt::format("logs/rank{}.log", rank));
}

}  // namespace

Recorder::Recorder(Env& env, std::string folder, int rank, Console* console,
                   std::vector<std::string> command_line)
    : env_(env),
      records_(env),
      folder_(std::move(folder)),
      rank_(rank),
      console_(console),
      command_line_(std::move(command_line)),
      log_(env, log_path(env, folder_, rank), {.max_bytes = kLogBytes, .keep = kOlderLogs}),
      files_("run folder", [this](const std::string& text) { warning(text); }) {}

std::string Recorder::file(const std::string& name) const {
  return join_path(folder_, name);
}

void Recorder::open(int64_t resumed_step, const std::string& resolved_config) {
  if (rank_ != 0) return;
  resumed_step_ = last_step_ = resumed_step;
  const auto add = [&](const char* name, const char* lost, Takes takes, Output::Open open) {
    outputs_.push_back({SideOutput(name, [this](const std::string& text) { warning(text); }), lost, takes,
                        std::move(open), nullptr});
    Output& output = outputs_.back();
    output.failures.attempt([&] { output.sink = output.open(); }, /*lost=*/0);
  };
  add("metrics.jsonl", "lines of metrics.jsonl", Takes::steps, [this] {
    return metrics_file_sink(records_, file("metrics.jsonl"), resumed_step_,
                             [&](const MetricsHistory& found) { tell_history(found); });
  });
  add("TensorBoard events", "steps of TensorBoard events", Takes::steps, [this] {
    return tensorboard_sink(records_, folder_, {wall_seconds(), host_name(), ::getpid()}, resumed_step_);
  });
  add("samples.jsonl", "samples of text", Takes::samples,
      [this] { return sample_file_sink(records_, file("samples.jsonl"), resumed_step_); });
  add("log", "steps of the log", Takes::steps, [this] { return log_sink(log_); });
  if (console_ != nullptr)
    add("console", "steps of the console", Takes::steps, [this] { return console_sink(*console_); });
  write("config.resolved.toml", resolved_config);
  Report environment = environment_report(ATHANOR_VERSION, command_line_);
  environment["format"] = kRunFormat;
  write("env.json", environment.to_json());
}

void Recorder::cut_back(int64_t step) {
  if (last_step_ <= step) return;
  sync();
  resumed_step_ = last_step_ = step;
  for (Output& output : outputs_)
    output.failures.attempt(
        [&] {
          output.sink.reset();
          output.sink = output.open();
        },
        /*lost=*/0);
}

void Recorder::tell_history(const MetricsHistory& found) {
  if (found.num_damaged > 0)
    warning(fmt::format(
        "metrics.jsonl: {} damaged line{} set aside in metrics.damaged.jsonl, the first was line {}",
        found.num_damaged, found.num_damaged == 1 ? " is" : "s are", found.first_damaged_line));
  if (found.last_abandoned == 0) return;
  const std::string aside = fmt::format("the metrics of {} are set aside in metrics.abandoned.jsonl",
                                        steps_text(found.first_abandoned, found.last_abandoned));
  if (resumed_step_ == 0)
    warning("no checkpoint had been saved, so the run begins at step 1: " + aside);
  else
    message(fmt::format("the run goes on after step {}: {}", resumed_step_, aside));
}

void Recorder::tell(Takes what, int64_t step, const std::function<void(RunSink&)>& call) {
  for (Output& output : outputs_) {
    if (output.sink == nullptr && output.takes != what) continue;
    output.failures.attempt([&] {
      if (output.sink == nullptr) {
        if (what == Takes::steps && step % kOpenEverySteps != 0) throw Recoverable("the file is not open");
        output.sink = output.open();
      }
      call(*output.sink);
    });
  }
}

// Written in the background: syncing a file takes milliseconds, and the first step should not wait for it.
void Recorder::write(const std::string& name, std::string text, bool is_safe) {
  written_ = std::async(std::launch::async, [this, name, text = std::move(text), is_safe,
                                             before = std::move(written_)]() mutable {
    if (before.valid()) before.get();
    unwritten_.erase(name);
    try {
      env_.create_folders(parent_folder(file(name)));
      if (is_safe)
        env_.write_atomically(file(name), text);
      else
        env_.replace(file(name), text);
    } catch (const Recoverable&) {
      unwritten_[name] = std::move(text);
    }
  });
}

void Recorder::finish_writing() {
  if (written_.valid()) written_.get();
  std::erase_if(unwritten_, [this](const auto& small) {
    return files_.attempt([&] { env_.write_atomically(file(small.first), small.second); }, /*lost=*/0);
  });
}

void Recorder::header(const std::string& title, const Rows& rows) {
  log_.write(LogLevel::info, title);
  std::string label;  // empty: the row continues the one above
  for (const auto& [key, value] : rows) {
    if (!key.empty()) label = key;
    std::string cells = value;
    for (size_t at = 0; (at = cells.find(kNextCell, at)) != std::string::npos;) cells.replace(at, 1, ", ");
    log_.write(LogLevel::info, fmt::format("{}: {}", label, cells));
  }
  if (console_ != nullptr) console_->header(title, rows);
}

void Recorder::step(const StepMetrics& metrics, int64_t total_steps) {
  if (rank_ != 0) return;
  if (written_.valid() && written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    finish_writing();
  training_.add(metrics.step, metrics.loss);
  last_step_ = metrics.step;
  tell(Takes::steps, metrics.step, [&](RunSink& sink) { sink.step(metrics, total_steps); });
}

void Recorder::first_validation(const StepMetrics& metrics, int64_t total_steps) {
  if (!metrics.valid_loss) return;
  for (Output& output : outputs_)
    if (output.sink != nullptr)
      output.failures.attempt([&] { output.sink->first_validation(metrics, total_steps); });
}

void Recorder::sample(const TextSample& sample) {
  tell(Takes::samples, sample.step, [&](RunSink& sink) { sink.sample(sample); });
}

void Recorder::message(const std::string& text) {
  log_.write(LogLevel::info, text);
  if (console_ != nullptr) console_->message(text);
}

void Recorder::warning(const std::string& text) {
  log_.write(LogLevel::warning, text);
  if (console_ != nullptr) console_->warning(text);
}

void Recorder::sync() {
  finish_writing();
  for (Output& output : outputs_)
    if (output.sink != nullptr) output.failures.attempt([&] { output.sink->sync(); }, /*lost=*/0);
}

void Recorder::report(const TrainReport& report) {
  if (rank_ == 0) write(report_name_, report.to_json());
}

void Recorder::renew(const TrainReport& report) {
  if (rank_ != 0) return;
  if (written_.valid() && written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  finish_writing();
  write(report_name_, report.to_json(), /*is_safe=*/false);
}

std::vector<std::pair<std::string, int64_t>> Recorder::dropped() const {
  std::vector<std::pair<std::string, int64_t>> counts;
  const auto add = [&](const char* what, int64_t count) {
    if (count > 0) counts.emplace_back(what, count);
  };
  for (const Output& output : outputs_) add(output.lost, output.failures.dropped());
  add("lines of the log", log_.dropped());
  return counts;
}

void Recorder::finish(const TrainReport& last, Ending ending) {
  report(last);
  sync();
  if (console_ != nullptr) console_->finish();
  if (rank_ != 0) return;
  std::vector<StepMetrics> all, drawn;
  std::vector<BegunPhase> phases;
  try {
    all = read_metrics(env_, file("metrics.jsonl"));
    drawn = with_first_evaluation(all, last.valid_loss_first, last.channel_loss_first);
    if (!all.empty()) phases = begun_phases(env_, last.run_folder, last, all.front().step);
    env_.write_atomically(file("loss.svg"), loss_svg({{"", drawn, phases}}, last.run_folder));
    ending.plot = file("loss.svg");
  } catch (const Failure& error) {
    warning(fmt::format("the loss plot cannot be drawn: {}", error.what()));
  }
  if (console_ != nullptr && drawn.size() >= kWorthDrawing)
    console_->plot(loss_curves(drawn, "", PlotX::step), phase_marks(phases, drawn, PlotX::step));
  close(std::move(ending), all);
}

void Recorder::fail(Ending ending) noexcept {
  if (rank_ != 0) return;
  try {
    if (console_ != nullptr) console_->finish();
    finish_writing();
    std::vector<StepMetrics> all;
    try {
      all = read_metrics(env_, file("metrics.jsonl"));
    } catch (const Failure&) {  // the history cannot be read: only the steps of this process are drawn
    }
    close(std::move(ending), all);
  } catch (...) {  // the error that ended the run is the one worth reporting
  }
}

void Recorder::close(Ending ending, const std::vector<StepMetrics>& metrics) {
  for (const StepMetrics& m : metrics) {
    ending.training.add(m.step, m.loss);
    if (m.valid_loss) ending.validation.add(m.step, *m.valid_loss);
  }
  if (metrics.empty()) ending.training = training_;
  ending.dropped = dropped();
  if (!unwritten_.empty()) ending.dropped.emplace_back("small files", std::ssize(unwritten_));
  header(closing_title(ending), closing_rows(ending));
}

}  // namespace athanor::run
