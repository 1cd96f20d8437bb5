// A rank's log file: one line an event, with time and level.
//
//   LogFile log(env, "runs/first/logs/rank0.log");
//   log.write(LogLevel::info, "resumed from step 100");
//     2026-05-01T12:00:00.123Z info    resumed from step 100
//
// Every line is handed to the system at once, so that it outlives a kill; errors are also synced. A file that
// has grown to max_bytes becomes rank0.log.1, that one rank0.log.2, ... and the oldest goes. A log must not
// end what it tells of: a line that cannot be written is dropped whole, never half, and the number of dropped lines is the
// next thing written when writing works again. Opening does throw (IoError). Thread rule: any thread may write.
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

namespace athanor {

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

  WholeRecords env_;  // above one that is not owned and outlives the log
  const std::string path_;
  const LogOptions options_;
  mutable std::mutex mutex_;
  std::unique_ptr<WritableFile> file_;
  uint64_t size_bytes_ = 0;
  int64_t dropped_lines_ = 0, all_dropped_ = 0;  // since the last that was written; ever
};

// "2026-05-01T12:00:00.123Z"
std::string utc_time(double wall_seconds);

}  // namespace athanor
