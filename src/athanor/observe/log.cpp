#include "athanor/observe/log.h"

#include <fmt/core.h>

#include <cmath>
#include <ctime>

#include "athanor/base/error.h"
#include "athanor/base/human.h"

namespace athanor::observe {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "?";
}

}  // namespace

std::string utc_time(double wall_seconds) {
  const auto milliseconds = static_cast<int64_t>(std::floor(wall_seconds * 1000 + 0.5));
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, milliseconds % 1000);
}

LogFile::LogFile(Env& env, std::string path, LogOptions options)
    : env_(env), path_(std::move(path)), options_(std::move(options)) {
  env_.create_folders(parent_folder(path_));
  if (env_.exists(path_)) size_bytes_ = env_.open(path_)->size_bytes();
  file_ = env_.append_to(path_);
}

void LogFile::write(LogLevel level, std::string_view text) {
  if (level < options_.least) return;
  const std::lock_guard lock(mutex_);
  try {
    if (dropped_lines_ > 0) {
      append(LogLevel::warning, fmt::format("{} lines before this one could not be written", dropped_lines_));
      dropped_lines_ = 0;
    }
    append(level, text);
  } catch (const Failure&) {
    ++dropped_lines_;
    ++all_dropped_;
  }
}

int64_t LogFile::dropped() const {
  const std::lock_guard lock(mutex_);
  return all_dropped_;
}

void LogFile::append(LogLevel level, std::string_view text) {
  std::string lines;
  const std::string time = utc_time(options_.clock());
  while (true) {
    const size_t end = text.find('\n');
    lines += fmt::format("{} {:<7} {}\n", time, level_name(level), printable(text.substr(0, end)));
    if (end == std::string_view::npos || end + 1 == text.size()) break;
    text.remove_prefix(end + 1);
  }
  if (file_ == nullptr || (size_bytes_ > 0 && size_bytes_ + lines.size() > options_.max_bytes)) rotate();
  file_->append(lines);
  file_->flush();
  size_bytes_ += lines.size();
  if (level == LogLevel::error) file_->sync();
}

void LogFile::rotate() {
  file_.reset();
  const auto numbered = [&](int number) { return number == 0 ? path_ : fmt::format("{}.{}", path_, number); };
  if (options_.keep == 0) env_.remove_all(path_);
  for (int number = options_.keep; number > 0; --number)
    if (env_.exists(numbered(number - 1))) env_.rename(numbered(number - 1), numbered(number));
  file_ = env_.create(path_);
  size_bytes_ = 0;
}

}  // namespace athanor::observe
