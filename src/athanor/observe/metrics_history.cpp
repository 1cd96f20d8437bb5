#include "athanor/observe/metrics_history.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/observe/metric_fields.h"
#include "athanor/observe/set_aside.h"

namespace athanor::observe {
namespace {

constexpr const char* kAbandoned = "metrics.abandoned.jsonl";
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
  set_aside(env, beside(path, kAbandoned), found.abandoned);
  set_aside(env, beside(path, "metrics.damaged.jsonl"), found.damaged);
  if (found.kept != text) env.write_atomically(path, found.kept);
  return found;
}

int64_t last_generation(Env& env, const std::string& path) {
  int64_t last = -1;
  for (const std::string& file : {path, beside(path, kAbandoned)}) {
    if (!env.exists(file)) continue;
    const std::string text = env.read_text(file);
    size_t end = text.rfind('\n');  // what follows it is incomplete
    while (end != std::string::npos && end > 0) {
      const size_t before = text.rfind('\n', end - 1);
      const size_t start = before == std::string::npos ? 0 : before + 1;
      const auto json = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                              /*allow_exceptions=*/false);
      if (json.is_object() && json.contains("step")) {
        const auto found = json.find("generation");
        const bool is_number = found != json.end() && found->is_number_integer();
        last = std::max(last, is_number ? found->get<int64_t>() : int64_t{0});
        break;
      }
      end = before;
    }
  }
  return last;
}

}  // namespace athanor::observe
