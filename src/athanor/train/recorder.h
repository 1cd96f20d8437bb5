// All that a run leaves behind for people: console, metrics.jsonl, TensorBoard events, log, samples of text, loss curves,
// report.
//
// Only rank 0 shows and writes the run's files; the other ranks keep a log of their own. The log has every step, whatever
// the console shows. Every method may be called on every rank. None of these outputs ends a run: where one cannot be
// written (a full disk, a quota, a limit), that is said once, tried again with what comes next, and counted
// (observe/side_output.h); small files are written beside the training, those that failed are tried again at the next
// sync(). Thread rule: one thread. Errors: IoError where the run's folder or its log cannot be made.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/console.h"
#include "athanor/observe/log.h"
#include "athanor/observe/metrics.h"
#include "athanor/observe/sample_log.h"
#include "athanor/observe/side_output.h"
#include "athanor/observe/step_line.h"
#include "athanor/observe/tensorboard.h"
#include "athanor/observe/whole_records.h"
#include "athanor/train/closing.h"
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
  // What the first weights score: valid_loss and valid_channel_loss of step 0.
  void first_validation(const StepMetrics& metrics, int64_t total_steps);
  void sample(const TextSample& sample);
  void message(const std::string& text);
  void warning(const std::string& text);
  void sync();  // metrics up to here survive a power cut
  void report(const TrainReport& report);
  void renew(const TrainReport& report);  // the same where nothing may wait for it: not safe from a power cut
  // A file of this rank in the run's folder: "trace/rank0.json". Unless `is_safe`, a power cut may lose it.
  void write(const std::string& name, std::string text, bool is_safe = true);
  // The report, the loss curves and the last words.
  void finish(const TrainReport& report, Ending ending);
  // The last words of a run that fails: nothing is thrown, nothing else written.
  void fail(Ending ending) noexcept;

  // What could not be written so far, and how often; nothing where all could.
  std::vector<std::pair<std::string, int64_t>> dropped() const;
  std::string file(const std::string& name) const;

 private:
  void open_metrics();
  void open_board();
  void tell_history();
  void finish_writing();  // waits, and tries what failed again
  void close(Ending ending, const std::vector<StepMetrics>& metrics);

  Env& env_;
  WholeRecords records_;
  std::string folder_;
  int rank_;
  Console* console_;
  std::vector<std::string> command_line_;
  LogFile log_;
  int64_t resumed_step_ = 0;
  std::unique_ptr<MetricsWriter> metrics_;    // null: not open yet, or it could not be
  std::unique_ptr<TensorBoardWriter> board_;  // likewise
  std::unique_ptr<SampleLog> samples_;        // likewise
  StepLine log_line_{TerminalStyle{}};
  LossSummary training_;  // of the steps of this process
  SideOutput lines_, events_, texts_, files_;
  std::map<std::string, std::string>
      unwritten_;              // small files by name; written_ changes it until it is waited for
  std::future<void> written_;  // last: it is waited for before all else goes
};

}  // namespace athanor
