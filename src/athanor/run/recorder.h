// All outputs of a run for people: console, metrics.jsonl, TensorBoard events, log, text samples, loss curves, report.
//
//   Recorder recorder(env, run_folder, rank, &console, command_line);
//   recorder.open(/*resumed_step=*/0, resolved_config);
//   recorder.step(metrics, total_steps);
//   recorder.finish(report, ending);
//
// Only rank 0 shows and writes the run's files; other ranks keep a log of their own. The log has every step, even if
// the console does not show it. Every method may be called on every rank. No output ends a run: a file that cannot be
// written (full disk, quota, limit) is reported once, tried again at the next write, and counted
// (observe/side_output.h). Small files are written in the background; failed ones are tried again at the next sync().
// Errors: IoError where the run's folder or its log cannot be made. Thread rule: one thread.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/console.h"
#include "athanor/observe/log.h"
#include "athanor/observe/report.h"
#include "athanor/observe/run_sink.h"
#include "athanor/observe/side_output.h"
#include "athanor/observe/whole_records.h"
#include "athanor/run/closing.h"
#include "athanor/run/report.h"

namespace athanor::run {

class Recorder {
 public:
  // console may be null. The run's folder must exist.
  Recorder(Env& env, std::string folder, int rank, Console* console, std::vector<std::string> command_line);

  void name_report(const char* name) { report_name_ = name; }  // else report.json
  // Opens the files of a run that goes on after `resumed_step` (0: a new one).
  void open(int64_t resumed_step, const std::string& resolved_config);
  // The run goes on after an earlier step: what was recorded of later ones is set aside, as at a start. Does nothing where
  // there is none.
  void cut_back(int64_t step);
  int64_t last_step() const { return last_step_; }  // the newest that was recorded
  void header(const std::string& title, const Rows& rows);
  void step(const StepMetrics& metrics, int64_t total_steps);
  // The evaluation before training: valid_loss and valid_channel_loss of step 0.
  void first_validation(const StepMetrics& metrics, int64_t total_steps);
  void sample(const TextSample& sample);
  void message(const std::string& text);
  void warning(const std::string& text);
  void sync();  // metrics up to here survive a power cut
  void report(const TrainReport& report);
  void renew(const TrainReport& report);  // report() without waiting for the disk: a power cut may lose it
  // Writes a file of this rank into the run's folder: "trace/rank0.json". Unless `is_safe`, a power cut may lose it.
  void write(const std::string& name, std::string text, bool is_safe = true);
  // Writes the report, the loss curves and the closing summary (closing.h).
  void finish(const TrainReport& report, Ending ending);
  // Shows the closing summary of a failed run and writes nothing else.
  void fail(Ending ending) noexcept;

  // What could not be written so far, and how often; empty where everything was written.
  std::vector<std::pair<std::string, int64_t>> dropped() const;
  std::string file(const std::string& name) const;

 private:
  // Which records make an output open its file (again). Others reach it only while the file is open.
  enum class Takes : uint8_t { steps, samples };
  struct Output {
    using Open = std::function<std::unique_ptr<RunSink>()>;
    SideOutput failures;
    const char* lost;  // what a failure drops: "lines of metrics.jsonl"
    Takes takes;
    Open open;
    std::unique_ptr<RunSink> sink;  // null: not open yet, or it could not be
  };

  void tell(Takes what, int64_t step, const std::function<void(RunSink&)>& call);
  void tell_history(const MetricsHistory& found);
  void finish_writing();  // waits for the background writes, then tries failed ones again
  void close(Ending ending, const std::vector<StepMetrics>& metrics);

  Env& env_;
  WholeRecords records_;
  std::string folder_;
  int rank_;
  const char* report_name_ = kReportName;
  int64_t resumed_step_ = 0, last_step_ = 0;  // which the files go on after; the newest recorded
  Console* console_;
  std::vector<std::string> command_line_;
  LogFile log_;
  std::vector<Output> outputs_;  // rank 0 alone has some
  LossSummary training_;         // of the steps of this process
  SideOutput files_;
  std::map<std::string, std::string> unwritten_;  // small files by name; the task behind written_ changes it
  std::future<void> written_;  // last member: its destructor waits before the others are destroyed
};

}  // namespace athanor::run
