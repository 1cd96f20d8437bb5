#include "athanor/train/recorder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/observe/loss_curves.h"
#include "athanor/observe/plot.h"
#include "athanor/observe/report.h"
#include "athanor/train/run_folder.h"

namespace athanor {
namespace {

// Every step of a long run: a gibibyte of lines.
constexpr uint64_t kLogBytes = uint64_t{64} << 20;
constexpr int kOlderLogs = 15;
// Opening reads the whole file, so a file that cannot be opened is not tried in every step.
constexpr int64_t kOpenEverySteps = 64;
constexpr size_t kLogColumns = 400;  // of a step: whatever there is to say
constexpr size_t kWorthDrawing = 8;  // steps

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
      records_(env),
      folder_(std::move(folder)),
      rank_(rank),
      console_(console),
      command_line_(std::move(command_line)),
      log_(env, log_path(env, folder_, rank), {.max_bytes = kLogBytes, .keep = kOlderLogs}),
      lines_("metrics.jsonl", [this](const std::string& text) { warning(text); }),
      events_("TensorBoard events", [this](const std::string& text) { warning(text); }),
      texts_("samples.jsonl", [this](const std::string& text) { warning(text); }),
      files_("run folder", [this](const std::string& text) { warning(text); }) {}

std::string Recorder::file(const std::string& name) const {
  return join_path(folder_, name);
}

void Recorder::open(int64_t resumed_step, const std::string& resolved_config) {
  if (rank_ != 0) return;
  resumed_step_ = resumed_step;
  lines_.attempt([&] { open_metrics(); }, /*lost=*/0);
  events_.attempt([&] { open_board(); }, /*lost=*/0);
  texts_.attempt(
      [&] { samples_ = std::make_unique<SampleLog>(records_, file("samples.jsonl"), resumed_step_); },
      /*lost=*/0);
  write("config.resolved.toml", resolved_config);
  Report environment = environment_report(ATHANOR_VERSION, command_line_);
  environment["format"] = kRunFormat;
  write("env.json", environment.to_json());
}

void Recorder::open_metrics() {
  metrics_ = std::make_unique<MetricsWriter>(records_, file("metrics.jsonl"), resumed_step_);
  tell_history();
}

void Recorder::tell_history() {
  const MetricsHistory& found = metrics_->found();
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
    message(fmt::format("the checkpoint is of step {}: {}", resumed_step_, aside));
}

void Recorder::open_board() {
  board_ = std::make_unique<TensorBoardWriter>(
      records_, folder_,
      TensorBoardId{.wall_seconds = wall_seconds(), .host = host_name(), .pid = ::getpid()}, resumed_step_);
}

// Until a file is safe on a disk takes milliseconds, which the first step need not wait for.
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
        replace(env_, file(name), text);
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
  const auto open_again = [&](const char* what, const auto& open) {
    if (metrics.step % kOpenEverySteps != 0) throw Recoverable(fmt::format("{} is not open", what));
    open();
  };
  lines_.attempt([&] {
    if (metrics_ == nullptr) open_again("the file", [&] { open_metrics(); });
    metrics_->write(metrics);
  });
  events_.attempt([&] {
    if (board_ == nullptr) open_again("the file", [&] { open_board(); });
    board_->write(metrics, wall_seconds());
    board_->flush();
  });
  training_.add(metrics.step, metrics.loss);
  log_line_.add(metrics, total_steps, process_age_seconds());
  log_.write(LogLevel::info, log_line_.plain(kLogColumns));
  if (metrics.valid_loss) {
    log_line_.add_validation(*metrics.valid_loss);
    log_.write(LogLevel::info,
               fmt::format("valid {} | loss {:.4f} | {}", step_of_total(metrics.step, total_steps),
                           *metrics.valid_loss, channel_text(metrics.valid_channel_loss)));
  }
  if (console_ == nullptr) return;
  console_->step(metrics, total_steps);
  if (metrics.valid_loss) console_->validation(metrics, total_steps);
}

void Recorder::first_validation(const StepMetrics& metrics, int64_t total_steps) {
  if (!metrics.valid_loss) return;
  std::string text = fmt::format("before training: validation loss {:.4f}", *metrics.valid_loss);
  for (const auto& [name, loss] : metrics.valid_channel_loss) text += fmt::format(", {} {:.4f}", name, loss);
  log_.write(LogLevel::info, text);
  if (board_ != nullptr) events_.attempt([&] { board_->write_validation(metrics, wall_seconds()); });
  if (console_ != nullptr) console_->validation(metrics, total_steps);
}

void Recorder::sample(const TextSample& sample) {
  if (rank_ != 0) return;
  log_.write(LogLevel::info, fmt::format("sample of step {}: {}{}", sample.step, sample.prompt, sample.text));
  if (console_ != nullptr) console_->sample(sample);
  if (board_ != nullptr)
    events_.attempt([&] {
      board_->text("samples", fmt::format("**{}**{}", sample.prompt, sample.text), sample.step,
                   wall_seconds());
    });
  texts_.attempt([&] {
    if (samples_ == nullptr)
      samples_ = std::make_unique<SampleLog>(records_, file("samples.jsonl"), sample.step);
    samples_->write(sample);
  });
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
  if (metrics_ != nullptr) lines_.attempt([&] { metrics_->sync(); }, /*lost=*/0);
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

std::vector<std::pair<std::string, int64_t>> Recorder::dropped() const {
  std::vector<std::pair<std::string, int64_t>> counts;
  const auto add = [&](const char* what, int64_t count) {
    if (count > 0) counts.emplace_back(what, count);
  };
  add("lines of metrics.jsonl", lines_.dropped());
  add("steps of TensorBoard events", events_.dropped());
  add("samples of text", texts_.dropped());
  add("lines of the log", log_.dropped());
  return counts;
}

void Recorder::finish(const TrainReport& last, Ending ending) {
  report(last);
  sync();
  if (console_ != nullptr) console_->finish();
  if (rank_ != 0) return;
  std::vector<StepMetrics> all, drawn;
  try {
    all = read_metrics(env_, file("metrics.jsonl"));
    drawn = with_first_evaluation(all, last.valid_loss_first, last.channel_loss_first);
    env_.write_atomically(file("loss.svg"), loss_svg({{"", drawn}}, last.run_folder));
    ending.plot = file("loss.svg");
  } catch (const Failure& error) {
    warning(fmt::format("the loss plot cannot be drawn: {}", error.what()));
  }
  if (console_ != nullptr && drawn.size() >= kWorthDrawing)
    console_->plot(loss_curves(drawn, "", PlotX::step));
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
    } catch (const Failure&) {  // what this process saw has to do
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

}  // namespace athanor
