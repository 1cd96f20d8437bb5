#include "athanor/train/recorder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/observe/plot.h"
#include "athanor/observe/report.h"
#include "athanor/observe/step_line.h"

namespace athanor {
namespace {

// Every step of a long run: a gibibyte of lines.
constexpr uint64_t kLogBytes = uint64_t{64} << 20;
constexpr int kOlderLogs = 15;
// Opening reads the whole file, so a file that cannot be opened is not tried in every step.
constexpr int64_t kOpenEverySteps = 64;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
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
      files_("run folder", [this](const std::string& text) { warning(text); }) {}

std::string Recorder::file(const std::string& name) const {
  return join_path(folder_, name);
}

void Recorder::open(int64_t resumed_step, const std::string& resolved_config) {
  if (rank_ != 0) return;
  resumed_step_ = resumed_step;
  lines_.attempt([&] { open_metrics(); }, /*lost=*/0);
  events_.attempt([&] { open_board(); }, /*lost=*/0);
  write("config.resolved.toml", resolved_config);
  write("env.json", environment_report(ATHANOR_VERSION, command_line_).to_json());
}

void Recorder::open_metrics() {
  metrics_ = std::make_unique<MetricsWriter>(records_, file("metrics.jsonl"), resumed_step_);
}

void Recorder::open_board() {
  board_ = std::make_unique<TensorBoardWriter>(
      records_, folder_,
      TensorBoardId{.wall_seconds = wall_seconds(), .host = host_name(), .pid = ::getpid()}, resumed_step_);
}

// Until a file is safe on a disk takes milliseconds, which the first step need not wait for.
void Recorder::write(const std::string& name, std::string text) {
  written_ = std::async(std::launch::async,
                        [this, name, text = std::move(text), before = std::move(written_)]() mutable {
                          if (before.valid()) before.get();
                          unwritten_.erase(name);
                          try {
                            env_.create_folders(parent_folder(file(name)));
                            env_.write_atomically(file(name), text);
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
  for (const auto& [key, value] : rows)
    log_.write(LogLevel::info, fmt::format("{}{}{}", key, key.empty() ? "" : ": ", value));
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
  log_.write(LogLevel::info, step_line(metrics, total_steps));
  if (metrics.valid_loss) log_.write(LogLevel::info, validation_line(metrics, total_steps));
  if (console_ == nullptr) return;
  console_->step(metrics, total_steps);
  if (metrics.valid_loss) console_->validation(metrics, total_steps);
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

std::vector<std::pair<std::string, int64_t>> Recorder::dropped() const {
  std::vector<std::pair<std::string, int64_t>> counts;
  const auto add = [&](const char* what, int64_t count) {
    if (count > 0) counts.emplace_back(what, count);
  };
  add("lines of metrics.jsonl", lines_.dropped());
  add("steps of TensorBoard events", events_.dropped());
  add("lines of the log", log_.dropped());
  return counts;
}

void Recorder::finish(const TrainReport& last, Ending ending) {
  report(last);
  sync();
  if (console_ != nullptr) console_->finish();
  if (rank_ != 0) return;
  std::vector<StepMetrics> all;
  try {
    all = read_metrics(env_, file("metrics.jsonl"));
    env_.write_atomically(file("loss.svg"), loss_svg(all, last.run_folder));
    ending.plot = file("loss.svg");
  } catch (const Failure& error) {
    warning(fmt::format("the loss plot cannot be drawn: {}", error.what()));
  }
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
