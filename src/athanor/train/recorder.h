// All that a run leaves behind for people: console, metrics.jsonl, TensorBoard events, log, loss curve,
// report.
//
// Only rank 0 shows and writes the run's files; the other ranks keep a log of their own. Every method may be
// called on every rank. Small files are written beside the training; what goes wrong with one is thrown by a later
// call. Thread rule: one thread. Errors: IoError of the Env.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/observe/console.h"
#include "athanor/observe/log.h"
#include "athanor/observe/metrics.h"
#include "athanor/observe/sample_log.h"
#include "athanor/observe/tensorboard.h"
#include "athanor/train/report.h"

namespace athanor {

class Recorder {
 public:
  // console may be null. The run's folder must exist.
  Recorder(Env& env, std::string folder, int rank, Console* console, std::vector<std::string> command_line);

  // Opens the files of a run that goes on after `resumed_step` (0: a new one).
  void open(int64_t resumed_step, const std::string& resolved_config);
  void header(const std::string& title, const Rows& rows);
  void step(const StepMetrics& metrics, int64_t total_steps);
  void first_validation(const StepMetrics& metrics, int64_t total_steps);  // step 0: before any step
  void sample(const TextSample& sample);  // a text of the model: samples.jsonl
  void message(const std::string& text);
  void warning(const std::string& text);
  void sync();  // metrics up to here survive a power cut
  void report(const TrainReport& report);
  void renew(const TrainReport& report);  // the same where nothing may wait for it: not safe from a power cut
  void finish(const TrainReport& report);  // also draws the loss curves

  std::string file(const std::string& name) const;

 private:
  void write(const std::string& name, std::string text, bool is_safe = true);
  void tell_history(int64_t resumed_step);
  void finish_writing();  // throws what went wrong

  Env& env_;
  std::string folder_;
  int rank_;
  Console* console_;
  std::vector<std::string> command_line_;
  LogFile log_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<TensorBoardWriter> board_;
  std::unique_ptr<SampleLog> samples_;
  std::future<void> written_;  // last: it is waited for before all else goes
};

}  // namespace athanor
