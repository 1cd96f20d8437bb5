#include "athanor/observe/html/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "athanor/base/human.h"
#include "athanor/observe/html/text.h"
#include "athanor/observe/log.h"

namespace athanor::observe::html {
namespace {

struct Lane {
  const char* name;
  std::array<std::string_view, 4> events;
  const char* style;
};

constexpr std::array<Lane, 8> kLanes = {{{"process", {"start", "end", ""}, "ink"},
                                         {"failures", {"failure", "stopped", ""}, "bad"},
                                         {"health", {"warm-up", "slow", "memory-growth", "hardware"}, "warn"},
                                         {"recovery", {"restart", "recovered", ""}, "good"},
                                         {"size", {"shrink", "grow", ""}, "size"},
                                         {"orders", {"snapshot", "rollback", "stop"}, "order"},
                                         {"guards", {"guard", "", ""}, "warn"},
                                         {"checkpoints", {"checkpoint", "", ""}, "save"}}};

// Where each event lies, from 0 to 1.
std::vector<double> places(const std::vector<RunEvent>& events) {
  constexpr double kCut = 0.03;
  std::vector<double> at(events.size(), 0);
  double busy = 0;
  std::vector<bool> is_pause(events.size(), false);
  std::vector<double> passed(events.size(), 0);
  for (size_t i = 1; i < events.size(); ++i) {
    is_pause[i] = events[i - 1].event == "end" && events[i].event == "start";
    passed[i] = std::max(0.0, events[i].time - events[i - 1].time);
    if (!is_pause[i]) busy += passed[i];
  }
  double now = 0;
  for (size_t i = 1; i < events.size(); ++i) {
    now += is_pause[i] ? std::min(passed[i], kCut * std::max(busy, 1e-3)) : passed[i];
    at[i] = now;
  }
  for (double& place : at) place = now > 0 ? place / now : 0;
  return at;
}

std::string told(const RunEvent& event) {
  std::string text = utc_time(event.time) + " " + event.event;
  if (event.step >= 0) text += fmt::format(", step {}", event.step);
  if (event.rank >= 0) text += fmt::format(", rank {}", event.rank);
  return event.cause.empty() ? text : text + ": " + event.cause;
}

std::string lane_row(const Lane& lane, const std::vector<RunEvent>& events, const std::vector<double>& at) {
  std::string dots;
  int64_t count = 0;
  double last = -1;
  for (size_t i = 0; i < events.size(); ++i) {
    if (std::find(lane.events.begin(), lane.events.end(), events[i].event) == lane.events.end()) continue;
    ++count;
    constexpr double kSame = 0.002;  // of the width: one dot covers the other
    if (last >= 0 && at[i] - last < kSame) continue;
    last = at[i];
    dots += fmt::format("<i class=\"{}\" style=\"left:{:.2f}%\" title=\"{}\"></i>", lane.style, 100 * at[i],
                        escaped(told(events[i])));
  }
  if (count == 0) return "";
  return fmt::format("<div class=\"lane\"><span>{} <b>{}</b></span><div class=\"track\">{}</div></div>\n",
                     lane.name, count, dots);
}

std::string seconds(double value) {
  return value < 0 ? "–" : human_seconds(value);
}

std::string whole(int64_t value) {
  return value < 0 ? "–" : with_commas(value);
}

}  // namespace

std::vector<Incidents> incidents_by_launch(const std::vector<RunEvent>& events) {
  std::vector<Incidents> all;
  for (const RunEvent& event : events) {
    if (all.empty() || event.event == "start") all.emplace_back();
    all.back().take(event);
  }
  return all;
}

std::string timeline(const std::vector<RunEvent>& events) {
  if (events.empty()) return "<p class=\"none\">no events</p>\n";
  const std::vector<double> at = places(events);
  std::string text = "<div class=\"lanes\">";
  for (const Lane& lane : kLanes) text += lane_row(lane, events, at);
  return text + fmt::format("<p class=\"ends\"><span>{}</span><span>{}</span></p></div>\n",
                            escaped(utc_time(events.front().time)), escaped(utc_time(events.back().time)));
}

std::string incident_table(const std::vector<RunEvent>& events) {
  constexpr size_t kMost = 500;
  std::vector<RunEvent> rows;
  for (const Incidents& launch : incidents_by_launch(events))
    rows.insert(rows.end(), launch.all().begin(), launch.all().end());
  if (rows.empty()) return "<p class=\"none\">no incidents</p>\n";
  std::string text;
  if (rows.size() > kMost) {
    text += fmt::format("<p class=\"none\">the newest {} of {}</p>", kMost, rows.size());
    rows.erase(rows.begin(), rows.end() - kMost);
  }
  text +=
      "<table "
      "class=\"incidents\"><thead><tr><th>time</th><th>incident</th><th>step</th><th>rank</th><th>cause</th>"
      "<th>detected in</th><th>recovered in</th><th>lost steps</th></tr></thead><tbody>\n";
  const auto cell = [](const char* label, const std::string& value, bool is_number) {
    return fmt::format("<td data-label=\"{}\"{}>{}</td>", label, is_number ? " class=\"n\"" : "",
                       escaped(value));
  };
  for (const RunEvent& row : rows)
    text += "<tr>" + cell("time", utc_time(row.time), false) + cell("incident", row.event, false) +
            cell("step", whole(row.step), true) + cell("rank", whole(row.rank), true) +
            cell("cause", row.cause.empty() ? "–" : row.cause, false) +
            cell("detected in", seconds(row.detect_seconds), true) +
            cell("recovered in", seconds(row.recover_seconds), true) +
            cell("lost steps", whole(row.lost_steps), true) + "</tr>\n";
  return text + "</tbody></table>\n";
}

std::string lost_time(const std::vector<RunEvent>& events) {
  std::vector<std::pair<std::string, double>> lost;
  double most = 0;
  for (const Incidents& launch : incidents_by_launch(events))
    for (const auto& [cause, time] : launch.lost_seconds()) {
      auto found = std::find_if(lost.begin(), lost.end(),
                                [name = cause](const auto& entry) { return entry.first == name; });
      if (found == lost.end()) found = lost.emplace(lost.end(), cause, 0.0);
      found->second += time;
      most = std::max(most, found->second);
    }
  if (lost.empty()) return "<p class=\"none\">no time was lost</p>\n";
  std::string text = "<div class=\"bars\">";
  for (const auto& [cause, time] : lost)
    text += fmt::format("<span>{}</span><div><i style=\"width:{:.1f}%\"></i></div><b>{}</b>\n",
                        escaped(cause), 100 * time / most, human_seconds(time));
  return text + "</div>\n";
}

}  // namespace athanor::observe::html
