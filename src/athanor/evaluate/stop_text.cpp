#include "athanor/evaluate/stop_text.h"

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"

namespace athanor::evaluate {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw ConfigError("--stop: got an empty text, expected one that ends the answer");
}

std::string StopText::add(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at > first || (at == first && stop.size() < found_->size())) continue;
    first = at;
    found_ = stop;
  }
  // A stop string that is not whole yet may have begun before the one that is.
  size_t ready = std::min(first, held_.size());
  for (const std::string& stop : stops_)
    for (size_t at = held_.size() < stop.size() ? 0 : held_.size() - stop.size() + 1; at < ready; ++at)
      if (stop.starts_with(std::string_view(held_).substr(at))) ready = at;
  if (ready < first) found_.reset();
  std::string shown = held_.substr(0, ready);
  held_.erase(0, ready);
  if (found_) held_.clear();
  return shown;
}

std::string StopText::finish() {
  std::string rest = std::exchange(held_, {});
  if (found_) return {};
  // What was waited for does not come: a stop string behind its beginning counts.
  for (size_t at = 0; at < rest.size(); ++at)
    for (const std::string& stop : stops_)
      if (std::string_view(rest).substr(at).starts_with(stop)) {
        found_ = stop;
        return rest.substr(0, at);
      }
  return rest;
}

}  // namespace athanor::evaluate
