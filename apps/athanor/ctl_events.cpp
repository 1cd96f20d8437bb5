#include "ctl_events.h"

#include <fmt/core.h>

#include "athanor/base/human.h"
#include "athanor/observe/log.h"

namespace athanor::apps {
namespace {

std::string number(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_number_integer() ? event[key].dump() : "-";
}

std::string words(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_string() ? printable(event[key].get<std::string>()) : "";
}

// A time in seconds, with the words around it; "" where it is not known.
std::string seconds(const Json& event, const char* key, const char* what) {
  if (!event.contains(key) || !event[key].is_number()) return "";
  const double value = event[key].get<double>();
  return value < 0.1 ? fmt::format("; {} {:.1f} ms", what, 1e3 * value)
                     : fmt::format("; {} {:.2f} s", what, value);
}

}  // namespace

std::string event_line(const Json& event) {
  const double time = event.contains("time") && event["time"].is_number() ? event["time"].get<double>() : 0.0;
  std::string line = fmt::format("{}  step {:>8}  generation {:>3}  {}", utc_time(time),
                                 number(event, "step"), number(event, "generation"), words(event, "event"));
  if (const std::string rank = number(event, "rank"); rank != "-") line += ", rank " + rank;
  if (const std::string cause = words(event, "cause"); !cause.empty()) line += ": " + cause;
  line += seconds(event, "detect_seconds", "seen after");
  line += seconds(event, "recover_seconds", "went on after");
  if (const std::string lost = number(event, "lost_steps"); lost != "-" && lost != "0")
    line += "; steps to do again: " + lost;
  return line;
}

}  // namespace athanor::apps
