#include "athanor/train/recorder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/observe/plot.h"
#include "athanor/observe/report.h"

namespace athanor {
namespace {

// Without waiting until a disk has it; a reader finds the old one or the new one.
void replace(Env& env, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const auto file = env.create(temporary);
  file->append(text);
  file->close();
  env.rename(temporary, path);
}

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
      folder_(std::move(folder)),
      rank_(rank),
      console_(console),
      command_line_(std::move(command_line)),
      log_(env, log_path(env, folder_, rank)) {}

std::string Recorder::file(const std::string& name) const {
  return join_path(folder_, name);
}

void Recorder::open(int64_t resumed_step, const std::string& resolved_config) {
  if (rank_ != 0) return;
  metrics_ = std::make_unique<MetricsWriter>(env_, file("metrics.jsonl"), resumed_step);
  tell_history(resumed_step);
  board_ = std::make_unique<TensorBoardWriter>(
      env_, folder_, TensorBoardId{.wall_seconds = wall_seconds(), .host = host_name(), .pid = ::getpid()},
      resumed_step);
  samples_ = std::make_unique<SampleLog>(env_, file("samples.jsonl"), resumed_step);
  write("config.resolved.toml", resolved_config);
  write("env.json", environment_report(ATHANOR_VERSION, command_line_).to_json());
}

void Recorder::tell_history(int64_t resumed_step) {
  const MetricsHistory& found = metrics_->found();
  if (found.num_damaged > 0)
    warning(fmt::format(
        "metrics.jsonl: {} damaged line{} set aside in metrics.damaged.jsonl, the first was line {}",
        found.num_damaged, found.num_damaged == 1 ? " is" : "s are", found.first_damaged_line));
  if (found.last_abandoned == 0) return;
  const std::string aside = fmt::format("the metrics of {} are set aside in metrics.abandoned.jsonl",
                                        steps_text(found.first_abandoned, found.last_abandoned));
  if (resumed_step == 0)
    warning("no checkpoint had been saved, so the run begins at step 1: " + aside);
  else
    message(fmt::format("the checkpoint is of step {}: {}", resumed_step, aside));
}

// Until a file is safe on a disk takes milliseconds, which the first step need not wait for.
void Recorder::write(const std::string& name, std::string text, bool is_safe) {
  written_ = std::async(std::launch::async, [this, path = file(name), text = std::move(text), is_safe,
                                             before = std::move(written_)]() mutable {
    if (before.valid()) before.get();
    if (is_safe)
      env_.write_atomically(path, text);
    else
      replace(env_, path, text);
  });
}

void Recorder::finish_writing() {
  if (written_.valid()) written_.get();
}

void Recorder::header(const std::string& title, const Rows& rows) {
  std::string label;  // a row without one goes on with that of the row before
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
  metrics_->write(metrics);
  board_->write(metrics, wall_seconds());
  board_->flush();
  if (console_ == nullptr) return;
  console_->step(metrics, total_steps);
  if (metrics.valid_loss) console_->validation(metrics, total_steps);
}

void Recorder::first_validation(const StepMetrics& metrics, int64_t total_steps) {
  if (!metrics.valid_loss) return;
  std::string text = fmt::format("before training: validation loss {:.4f}", *metrics.valid_loss);
  for (const auto& [name, loss] : metrics.valid_channel_loss) text += fmt::format(", {} {:.4f}", name, loss);
  log_.write(LogLevel::info, text);
  if (board_ != nullptr) board_->write_validation(metrics, wall_seconds());
  if (console_ != nullptr) console_->validation(metrics, total_steps);
}

void Recorder::sample(const TextSample& sample) {
  if (rank_ != 0) return;
  log_.write(LogLevel::info, fmt::format("sample of step {}: {}{}", sample.step, sample.prompt, sample.text));
  if (console_ != nullptr) console_->sample(sample);
  if (samples_ == nullptr) return;
  try {
    samples_->write(sample);
    board_->text("samples", fmt::format("**{}**{}", sample.prompt, sample.text), sample.step, wall_seconds());
  } catch (const Failure& error) {
    // What is only shown must not end what it shows.
    samples_.reset();
    warning(fmt::format("samples are no longer kept: {}", error.what()));
  }
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
  if (metrics_ != nullptr) metrics_->sync();
}

void Recorder::report(const TrainReport& report) {
  if (rank_ == 0) write("report.json", report.to_json());
}

void Recorder::renew(const TrainReport& report) {
  if (rank_ != 0) return;
  if (written_.valid() && written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  finish_writing();
  write("report.json", report.to_json(), /*is_safe=*/false);
}

void Recorder::finish(const TrainReport& last) {
  report(last);
  finish_writing();
  if (console_ != nullptr) console_->finish();
  if (rank_ != 0) return;
  metrics_->sync();
  const auto metrics = with_first_evaluation(read_metrics(env_, file("metrics.jsonl")), last.valid_loss_first,
                                             last.channel_loss_first);
  env_.write_atomically(file("loss.svg"), loss_svg({{"", metrics}}, last.run_folder));
  constexpr size_t kWorthDrawing = 8;  // steps
  const bool trained = last.steps > last.resumed_step;
  if (console_ != nullptr && trained && metrics.size() >= kWorthDrawing)
    console_->plot(loss_curves(metrics, "", PlotX::step));
}

}  // namespace athanor
