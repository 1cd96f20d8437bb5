#include "athanor/launch/diagnosis/hardware_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace athanor::tests::hardware_counters_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Machine {
  void write(const std::string& name, const std::string& text) const {
    const std::string path = root.path("sys/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << "\n";
  }
  HardwareCounters counters() const { return HardwareCounters(root.path("")); }
  TemporaryFolder root;
};

TEST(HardwareCounters, OfAMachineWithoutFilesSayNothing) {
  const Machine machine;
  HardwareCounters hardware = machine.counters();
  EXPECT_FALSE(hardware.has_any());
  EXPECT_THAT(hardware.look(), IsEmpty());
  EXPECT_EQ(hardware.since_start(), "");
}

TEST(HardwareCounters, ThrottlingIsToldOnceAndCountedSinceTheStart) {
  const Machine machine;
  machine.write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7");
  machine.write("devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "1");
  machine.write("devices/system/cpu/cpufreq/thermal_throttle/core_throttle_count", "1000");
  HardwareCounters hardware = machine.counters();
  EXPECT_TRUE(hardware.has_any());
  EXPECT_THAT(hardware.look(), IsEmpty()) << "before the start";
  machine.write("devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "3");
  machine.write("devices/system/cpu/cpufreq/thermal_throttle/core_throttle_count", "2000");
  EXPECT_THAT(hardware.look(), ElementsAre("processors throttled 2 times for heat"));
  machine.write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "8");
  EXPECT_THAT(hardware.look(), IsEmpty());
  EXPECT_EQ(hardware.since_start(), "processors throttled 3 times");
}

TEST(HardwareCounters, MemoryErrorsAreToldByControllerAndKind) {
  const Machine machine;
  for (const std::string mc : {"mc0", "mc1"}) {
    machine.write("devices/system/edac/mc/" + mc + "/ce_count", "5");
    machine.write("devices/system/edac/mc/" + mc + "/ue_count", "0");
  }
  HardwareCounters hardware = machine.counters();
  EXPECT_THAT(hardware.look(), IsEmpty());
  machine.write("devices/system/edac/mc/mc1/ce_count", "9");
  EXPECT_THAT(hardware.look(), ElementsAre("4 corrected memory errors on mc1"));
  machine.write("devices/system/edac/mc/mc0/ue_count", "1");
  EXPECT_THAT(hardware.look(), ElementsAre("1 uncorrected memory error on mc0"));
  EXPECT_EQ(hardware.since_start(), "1 uncorrected memory error on mc0, 4 corrected memory errors on mc1");
  std::filesystem::remove_all(machine.root.path("sys/devices/system/edac/mc/mc0"));
  EXPECT_THAT(hardware.look(), IsEmpty());
  EXPECT_EQ(hardware.since_start(), "1 uncorrected memory error on mc0, 4 corrected memory errors on mc1")
      << "what cannot be read any more has not gone back";
}

TEST(HardwareCounters, ATemperatureAtItsLowestLimitIsTold) {
  const Machine machine;
  const std::string zone = "class/thermal/thermal_zone0/";
  machine.write(zone + "type", "x86_pkg_temp");
  machine.write(zone + "temp", "60000");
  machine.write(zone + "trip_point_0_type", "active");  // a fan goes faster
  machine.write(zone + "trip_point_0_temp", "50000");
  machine.write(zone + "trip_point_1_type", "critical");
  machine.write(zone + "trip_point_1_temp", "105000");
  machine.write(zone + "trip_point_2_type", "passive");
  machine.write(zone + "trip_point_2_temp", "95500");
  machine.write("class/thermal/thermal_zone1/temp", "200000");  // it has no limit
  machine.write("class/hwmon/hwmon3/name", "k10temp");
  machine.write("class/hwmon/hwmon3/temp1_input", "40000");
  machine.write("class/hwmon/hwmon3/temp1_crit", "90000");
  HardwareCounters hardware = machine.counters();
  EXPECT_THAT(hardware.look(), IsEmpty());
  machine.write(zone + "temp", "97000");
  EXPECT_THAT(hardware.look(), ElementsAre("x86_pkg_temp is at 97 °C, its limit is 95.5 °C"));
  machine.write("class/hwmon/hwmon3/temp1_input", "90000");
  EXPECT_THAT(hardware.look(), ElementsAre("k10temp temp1 is at 90 °C, its limit is 90 °C"));
  EXPECT_THAT(hardware.look(), IsEmpty());
  EXPECT_EQ(hardware.since_start(), "");
}

}  // namespace
}  // namespace athanor::tests::hardware_counters_test
