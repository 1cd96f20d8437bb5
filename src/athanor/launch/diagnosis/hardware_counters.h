// What the machine says of its health, where the kernel has files for it: processors that were throttled for heat, memory errors
// (EDAC), temperatures at their limit. All counts are since the object was made.
//
//   HardwareCounters hardware(system_root);
//   if (!hardware.has_any()) return;                                  // no such files, as in most virtual machines
//   for (const std::string& found : hardware.look()) tell(found);     // each kind and place once
//   hardware.since_start();   // "processors throttled 12 times, 1 uncorrected memory error on mc0"; "": nothing
//
//   read below sys/                                            tells
//   devices/system/cpu/cpu*/thermal_throttle/*_throttle_count  throttled: the sum over the processors
//   devices/system/edac/mc/mc*/{ue_count,ce_count}             memory errors, uncorrected and corrected
//   class/thermal/thermal_zone*/{temp,trip_point_*}            a temperature at its lowest limit for heat
//   class/hwmon/hwmon*/temp*_{input,crit}                      likewise
//
// `root`: the folder under which /sys lies; tests pass their own. A file that cannot be read counts as unchanged. Thread rule: one
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

class HardwareCounters {
 public:
  explicit HardwareCounters(const std::string& root = "");

  bool has_any() const { return !counters_.empty() || !sensors_.empty(); }
  std::vector<std::string> look();  // what is new, a sentence each
  std::string since_start() const;  // as of the last look

 private:
  enum class Kind { throttled, uncorrected, corrected };
  struct Counter {
    Kind kind;
    std::string place;  // "mc0"; "": the machine
    std::vector<std::filesystem::path> files{};
    int64_t at_start = 0, now = 0;
    int64_t since_start() const { return now - at_start; }
  };
  struct Sensor {
    std::string name;
    std::filesystem::path file;
    int64_t limit_millicelsius = 0;
  };
  static std::string text_of(const Counter& counter);
  static int64_t read(const Counter& counter);
  void find_throttles(const std::filesystem::path& sys);
  void find_memory_errors(const std::filesystem::path& sys);
  void find_zones(const std::filesystem::path& sys);
  void find_sensors(const std::filesystem::path& sys);

  std::vector<Counter> counters_;
  std::vector<Sensor> sensors_;
  std::set<std::string> told_;
};

}  // namespace athanor::launch::diagnosis
