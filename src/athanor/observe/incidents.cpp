#include "athanor/observe/incidents.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace athanor::observe {
namespace {

constexpr std::array<std::string_view, 8> kBegins = {"failure",  "shrink", "grow", "snapshot",
                                                     "rollback", "guard",  "set",  "tune"};

Report entry_of(const RunEvent& incident) {
  Report entry;
  entry["time"] = incident.time;
  entry["event"] = incident.event;
  const auto number = [&](const char* key, auto value) {
    entry[key];
    if (value >= 0) entry[key] = value;
  };
  number("step", incident.step);
  number("generation", incident.generation);
  number("rank", incident.rank);
  entry["cause"] = incident.cause;
  number("detect_seconds", incident.detect_seconds);
  number("recover_seconds", incident.recover_seconds);
  number("lost_steps", incident.lost_steps);
  return entry;
}

}  // namespace

void Incidents::lose(const std::string& event, double seconds) {
  for (auto& [name, lost] : lost_)
    if (name == event) {
      lost += seconds;
      return;
    }
  lost_.emplace_back(event, seconds);
}

void Incidents::take(const RunEvent& event) {
  if (event.event == "recovered") {
    for (size_t i = first_open_; i < all_.size(); ++i) {
      if (all_[i].recover_seconds >= 0.0 || all_[i].event == "guard") continue;  // it had an end of its own
      all_[i].recover_seconds = event.recover_seconds;
      all_[i].lost_steps = event.lost_steps;
    }
    if (first_open_ < all_.size() && event.recover_seconds > 0.0)
      lose(all_[first_open_].event, event.recover_seconds);
    first_open_ = all_.size();
    return;
  }
  if (std::find(kBegins.begin(), kBegins.end(), event.event) == kBegins.end()) return;
  const bool is_over = event.recover_seconds >= 0.0 || event.event == "guard";
  all_.push_back(event);
  if (event.recover_seconds > 0.0) lose(event.event, event.recover_seconds);
  if (is_over && first_open_ + 1 == all_.size()) first_open_ = all_.size();
}

double Incidents::total_lost_seconds() const {
  double total = 0.0;
  for (const auto& [name, seconds] : lost_) total += seconds;
  return total;
}

void Incidents::put_into(Report& report) const {
  report["incidents"] = Report::list();
  for (size_t i = all_.size() > kMostListed ? all_.size() - kMostListed : 0; i < all_.size(); ++i)
    report["incidents"].push_back(entry_of(all_[i]));
  report["num_incidents"] = all_.size();
  report["lost_seconds"] = Report::object();
  for (const auto& [name, seconds] : lost_) report["lost_seconds"][name] = seconds;
}

}  // namespace athanor::observe
