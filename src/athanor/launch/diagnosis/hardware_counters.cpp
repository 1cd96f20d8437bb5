#include "athanor/launch/diagnosis/hardware_counters.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace athanor::launch::diagnosis {
namespace {

using Path = std::filesystem::path;

std::optional<int64_t> number_of(const Path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::string word_of(const Path& file) {
  std::ifstream stream(file);
  std::string word;
  std::getline(stream, word);
  return word;
}

// Whose name begins and ends so, sorted: "cpu0", not "cpufreq".
std::vector<Path> entries(const Path& folder, std::string_view begin, std::string_view end = "") {
  std::vector<Path> found;
  std::error_code none;
  for (auto entry = std::filesystem::directory_iterator(folder, none);
       !none && entry != std::filesystem::directory_iterator(); entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    if (name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end) &&
        name.find_first_not_of("0123456789", begin.size()) >= name.size() - end.size())
      found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

double celsius(int64_t millicelsius) {
  return static_cast<double>(millicelsius) / 1000;
}

}  // namespace

HardwareCounters::HardwareCounters(const std::string& root) {
  const Path sys = root + "/sys";
  find_throttles(sys);
  find_memory_errors(sys);
  find_zones(sys);
  find_sensors(sys);
  for (Counter& counter : counters_) counter.now = counter.at_start = read(counter);
}

// Each processor has the count of its package, too: that is not added.
void HardwareCounters::find_throttles(const Path& sys) {
  Counter counter{.kind = Kind::throttled, .place = ""};
  for (const Path& processor : entries(sys / "devices/system/cpu", "cpu")) {
    const Path file = processor / "thermal_throttle/core_throttle_count";
    if (number_of(file)) counter.files.push_back(file);
  }
  if (!counter.files.empty()) counters_.push_back(std::move(counter));
}

void HardwareCounters::find_memory_errors(const Path& sys) {
  for (const Path& controller : entries(sys / "devices/system/edac/mc", "mc"))
    for (const auto& [kind, name] :
         {std::pair{Kind::uncorrected, "ue_count"}, std::pair{Kind::corrected, "ce_count"}})
      if (number_of(controller / name))
        counters_.push_back(
            {.kind = kind, .place = controller.filename().string(), .files = {controller / name}});
}

void HardwareCounters::find_zones(const Path& sys) {
  for (const Path& zone : entries(sys / "class/thermal", "thermal_zone")) {
    int64_t limit = std::numeric_limits<int64_t>::max();
    for (const Path& trip : entries(zone, "trip_point_", "_type")) {
      const std::string type = word_of(trip), name = trip.filename().string();
      if (type != "passive" && type != "hot" && type != "critical") continue;  // active: a fan
      const auto at = number_of(zone / (name.substr(0, name.size() - 4) + "temp"));
      if (at && *at > 0) limit = std::min(limit, *at);
    }
    if (limit == std::numeric_limits<int64_t>::max()) continue;
    const std::string type = word_of(zone / "type");
    sensors_.push_back({.name = type.empty() ? zone.filename().string() : type,
                        .file = zone / "temp",
                        .limit_millicelsius = limit});
  }
}

void HardwareCounters::find_sensors(const Path& sys) {
  for (const Path& chip : entries(sys / "class/hwmon", "hwmon"))
    for (const Path& limit_file : entries(chip, "temp", "_crit")) {
      const auto limit = number_of(limit_file);
      if (!limit || *limit <= 0) continue;
      std::string name = limit_file.filename().string();
      name.resize(name.size() - 5);  // "temp1"
      sensors_.push_back({.name = word_of(chip / "name") + " " + name,
                          .file = chip / (name + "_input"),
                          .limit_millicelsius = *limit});
    }
}

int64_t HardwareCounters::read(const Counter& counter) {
  int64_t sum = 0;
  for (const Path& file : counter.files) sum += number_of(file).value_or(0);
  return sum;
}

std::string HardwareCounters::text_of(const Counter& counter) {
  const int64_t count = counter.since_start();
  const char* s = count == 1 ? "" : "s";
  switch (counter.kind) {
    case Kind::throttled:
      return fmt::format("processors throttled {} time{}", count, s);
    case Kind::uncorrected:
      return fmt::format("{} uncorrected memory error{} on {}", count, s, counter.place);
    case Kind::corrected:
      return fmt::format("{} corrected memory error{} on {}", count, s, counter.place);
  }
  return "";
}

std::vector<std::string> HardwareCounters::look() {
  std::vector<std::string> found;
  for (Counter& counter : counters_) {
    counter.now = std::max(counter.now, read(counter));
    if (counter.since_start() > 0 &&
        told_.insert(counter.place + std::to_string(static_cast<int>(counter.kind))).second)
      found.push_back(text_of(counter) + (counter.kind == Kind::throttled ? " for heat" : ""));
  }
  for (const Sensor& sensor : sensors_) {
    const auto now = number_of(sensor.file);
    if (now && *now >= sensor.limit_millicelsius && told_.insert("hot " + sensor.file.string()).second)
      found.push_back(fmt::format("{} is at {:g} °C, its limit is {:g} °C", sensor.name, celsius(*now),
                                  celsius(sensor.limit_millicelsius)));
  }
  return found;
}

std::string HardwareCounters::since_start() const {
  std::string text;
  for (const Counter& counter : counters_)
    if (counter.since_start() > 0) text += (text.empty() ? "" : ", ") + text_of(counter);
  return text;
}

}  // namespace athanor::launch::diagnosis
