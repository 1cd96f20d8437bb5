// The log file of a rank: one line per event, with time and level.
//
//   LogFile log(env, "runs/first/logs/rank0.log");
//   log.write(LogLevel::info, "resumed from step 100");
//   // 2026-05-01T12:00:00.123Z info    resumed from step 100
//
// Every line is handed to the system at once, so it survives a kill of the process; errors are also synced to disk. A
// file that has grown to max_bytes becomes rank0.log.1, rank0.log.1 becomes rank0.log.2, ..., and the oldest is
// deleted. A log must not end a run: a line that cannot be written is dropped (never half of it), and the number of
// dropped lines is written as soon as writing works again. Only opening throws (IoError). Thread rule: any thread may
// write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/observe/whole_records.h"

namespace athanor::observe {

enum class LogLevel { debug, info, warning, error };

struct LogOptions {
  LogLevel least = LogLevel::info;
  uint64_t max_bytes = uint64_t{16} << 20;
  int keep = 3;                                  // older files
  std::function<double()> clock = wall_seconds;  // since 1970
};

class LogFile {
 public:
  LogFile(Env& env, std::string path, LogOptions options = {});

  // Several lines become several lines of the file; control characters are replaced.
  void write(LogLevel level, std::string_view text);
  int64_t dropped() const;  // calls of write() whose lines could not be written, so far

 private:
  void append(LogLevel level, std::string_view text);
  void rotate();

  WholeRecords env_;  // over the caller's Env, which outlives the log
  const std::string path_;
  const LogOptions options_;
  mutable std::mutex mutex_;
  std::unique_ptr<WritableFile> file_;
  uint64_t size_bytes_ = 0;
  int64_t dropped_lines_ = 0, all_dropped_ = 0;  // since the last written line; in all
};

// "2026-05-01T12:00:00.123Z"
std::string utc_time(double wall_seconds);

}  // namespace athanor::observe
