#include "athanor/observe/metrics_history.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/observe/metric_fields.h"

namespace athanor::observe {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The step of a line as this program writes it; 0 for anything else. Cheap, since a long run has millions of them.
int64_t step_as_written(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (!line.starts_with(kStart)) return 0;
  int64_t step = 0;
  const char* first = line.data() + kStart.size();
  const auto [end, error] = std::from_chars(first, line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return 0;
  for (const MetricField& field : metric_fields())
    if (field.has == nullptr && line.find(fmt::format("\"{}\":", field.name)) == std::string_view::npos)
      return 0;
  return nlohmann::json::accept(line) ? step : 0;
}

// Of any line of metrics, however a tool has formatted it.
int64_t step_of_line(std::string_view line) {
  if (const int64_t step = step_as_written(line)) return step;
  try {
    return std::max<int64_t>(0, parse_metrics_line(line).step);
  } catch (const Error&) {
    return 0;
  }
}

void add_line(std::string& lines, std::string_view line) {
  lines += line;
  lines += '\n';
}

// How much of `lines`, in complete lines from its beginning, is already at the end of `there`, written by an earlier
// start that died afterwards.
size_t already_there(std::string_view there, std::string_view lines) {
  for (size_t size = lines.size(); size > 0; size = size == 1 ? 0 : lines.rfind('\n', size - 2) + 1)
    if (there.ends_with(lines.substr(0, size))) return size;
  return 0;
}

void set_aside(Env& env, const std::string& path, std::string_view lines) {
  if (lines.empty()) return;
  if (env.exists(path)) {
    const std::string text = env.read_text(path);
    const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
    if (whole < text.size()) env.truncate(path, whole);
    lines.remove_prefix(already_there(std::string_view(text).substr(0, whole), lines));
    if (lines.empty()) return;
  }
  const auto file = env.append_to(path);
  file->append(lines);
  file->sync();
  file->close();
}

std::string beside(const std::string& path, const char* name) {
  return join_path(parent_folder(path), name);
}

}  // namespace

MetricsHistory sort_history(std::string_view text, int64_t resumed_step) {
  MetricsHistory found;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool is_torn = end == std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(is_torn ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const int64_t step = step_of_line(line);
    if (step > found.last_step && step <= resumed_step) {
      found.last_step = step;
      add_line(found.kept, line);
    } else if (step > 0) {
      if (found.abandoned.empty()) found.first_abandoned = found.last_abandoned = step;
      found.first_abandoned = std::min(found.first_abandoned, step);
      found.last_abandoned = std::max(found.last_abandoned, step);
      add_line(found.abandoned, line);
    } else if (!is_torn) {
      if (found.num_damaged++ == 0) found.first_damaged_line = number;
      add_line(found.damaged, line);
    }
  }
  return found;
}

MetricsHistory open_history(Env& env, const std::string& path, int64_t resumed_step) {
  if (!env.exists(path)) return {};
  const std::string text = env.read_text(path);
  MetricsHistory found = sort_history(text, resumed_step);
  set_aside(env, beside(path, "metrics.abandoned.jsonl"), found.abandoned);
  set_aside(env, beside(path, "metrics.damaged.jsonl"), found.damaged);
  if (found.kept != text) env.write_atomically(path, found.kept);
  return found;
}

}  // namespace athanor::observe
