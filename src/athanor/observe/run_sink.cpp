#include "athanor/observe/run_sink.h"

#include <fmt/core.h>

#include "athanor/base/clock.h"
#include "athanor/observe/step_line.h"

namespace athanor::observe {
namespace {

constexpr size_t kLogColumns = 400;  // of a step: whatever there is to say

class MetricsFileSink final : public RunSink {
 public:
  MetricsFileSink(Env& env, const std::string& path, int64_t resumed_step)
      : writer_(env, path, resumed_step) {}
  const MetricsHistory& found() const { return writer_.found(); }
  void step(const StepMetrics& metrics, int64_t /*total_steps*/) override { writer_.write(metrics); }
  void sync() override { writer_.sync(); }

 private:
  MetricsWriter writer_;
};

class TensorBoardSink final : public RunSink {
 public:
  TensorBoardSink(Env& env, const std::string& folder, const TensorBoardId& id, int64_t resumed_step)
      : board_(env, folder, id, resumed_step) {}
  void step(const StepMetrics& metrics, int64_t /*total_steps*/) override {
    board_.write(metrics, wall_seconds());
    board_.flush();
  }
  void first_validation(const StepMetrics& metrics, int64_t /*total_steps*/) override {
    board_.write_validation(metrics, wall_seconds());
  }
  void sample(const TextSample& sample) override {
    board_.text("samples", fmt::format("**{}**{}", sample.prompt, sample.text), sample.step, wall_seconds());
  }

 private:
  TensorBoardWriter board_;
};

class SampleFileSink final : public RunSink {
 public:
  SampleFileSink(Env& env, const std::string& path, int64_t resumed_step)
      : samples_(env, path, resumed_step) {}
  void sample(const TextSample& sample) override { samples_.write(sample); }

 private:
  SampleLog samples_;
};

class LogSink final : public RunSink {
 public:
  explicit LogSink(LogFile& log) : log_(log) {}
  void step(const StepMetrics& metrics, int64_t total_steps) override {
    line_.add(metrics, total_steps, age_at_start_ + now_seconds());
    log_.write(LogLevel::info, line_.plain(kLogColumns));
    if (!metrics.valid_loss) return;
    line_.add_validation(*metrics.valid_loss);
    log_.write(LogLevel::info,
               fmt::format("valid {} | loss {:.4f} | {}", step_of_total(metrics.step, total_steps),
                           *metrics.valid_loss, channel_text(metrics.valid_channel_loss)));
  }
  void first_validation(const StepMetrics& metrics, int64_t /*total_steps*/) override {
    std::string text = fmt::format("before training: validation loss {:.4f}", *metrics.valid_loss);
    for (const auto& [name, loss] : metrics.valid_channel_loss)
      text += fmt::format(", {} {:.4f}", name, loss);
    log_.write(LogLevel::info, text);
  }
  void sample(const TextSample& sample) override {
    log_.write(LogLevel::info,
               fmt::format("sample of step {}: {}{}", sample.step, sample.prompt, sample.text));
  }

 private:
  LogFile& log_;
  double age_at_start_ =
      process_age_seconds() - now_seconds();  // asking the system in each step would cost 20 us
  StepLine line_{TerminalStyle{}};
};

class ConsoleSink final : public RunSink {
 public:
  explicit ConsoleSink(Console& console) : console_(console) {}
  void step(const StepMetrics& metrics, int64_t total_steps) override {
    console_.step(metrics, total_steps);
    if (metrics.valid_loss) console_.validation(metrics, total_steps);
  }
  void first_validation(const StepMetrics& metrics, int64_t total_steps) override {
    console_.validation(metrics, total_steps);
  }
  void sample(const TextSample& sample) override { console_.sample(sample); }

 private:
  Console& console_;
};

}  // namespace

std::unique_ptr<RunSink> metrics_file_sink(Env& env, const std::string& path, int64_t resumed_step,
                                           const std::function<void(const MetricsHistory&)>& found) {
  auto sink = std::make_unique<MetricsFileSink>(env, path, resumed_step);
  found(sink->found());
  return sink;
}
std::unique_ptr<RunSink> tensorboard_sink(Env& env, const std::string& folder, const TensorBoardId& id,
                                          int64_t resumed_step) {
  return std::make_unique<TensorBoardSink>(env, folder, id, resumed_step);
}
std::unique_ptr<RunSink> sample_file_sink(Env& env, const std::string& path, int64_t resumed_step) {
  return std::make_unique<SampleFileSink>(env, path, resumed_step);
}
std::unique_ptr<RunSink> log_sink(LogFile& log) {
  return std::make_unique<LogSink>(log);
}
std::unique_ptr<RunSink> console_sink(Console& console) {
  return std::make_unique<ConsoleSink>(console);
}

}  // namespace athanor::observe
