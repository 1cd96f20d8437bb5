// An output of a run: metrics.jsonl, TensorBoard, text samples, the log, the console. A new output (a monitoring
// system, say) is one more sink, which reads the fields of metric_fields.h; no other code changes.
//
//   std::vector<std::unique_ptr<RunSink>> sinks;
//   sinks.push_back(tensorboard_sink(env, "runs/first", id, resumed_step));
//   for (auto& sink : sinks) sink->step(metrics, total_steps);
//
// Thread rule: a sink belongs to one thread. Errors: Recoverable if it could not write. The data of that call is lost;
// the next call may work again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "athanor/base/file.h"
#include "athanor/observe/console.h"
#include "athanor/observe/log.h"
#include "athanor/observe/metrics.h"
#include "athanor/observe/sample_log.h"
#include "athanor/observe/tensorboard.h"

namespace athanor::observe {

class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual void step(const StepMetrics& /*metrics*/, int64_t /*total_steps*/) {}
  // Validation losses of the initial weights, as step 0.
  virtual void first_validation(const StepMetrics& /*metrics*/, int64_t /*total_steps*/) {}
  virtual void sample(const TextSample& /*sample*/) {}
  virtual void sync() {}  // fsync: what was written so far survives a power cut
};

// `found` is called once, with the metrics of earlier starts (observe/metrics_history.h).
std::unique_ptr<RunSink> metrics_file_sink(Env& env, const std::string& path, int64_t resumed_step,
                                           const std::function<void(const MetricsHistory&)>& found);
std::unique_ptr<RunSink> tensorboard_sink(Env& env, const std::string& folder, const TensorBoardId& id,
                                          int64_t resumed_step);
std::unique_ptr<RunSink> sample_file_sink(Env& env, const std::string& path, int64_t resumed_step);
std::unique_ptr<RunSink> log_sink(LogFile& log);          // the log must outlive the sink
std::unique_ptr<RunSink> console_sink(Console& console);  // the console must outlive the sink

}  // namespace athanor::observe
