#include "athanor/observe/profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {
namespace {

std::string row(const std::string& kernel, const std::string& shape, double calls, double milliseconds,
                double share, double floor, const Cost& cost) {
  const double seconds = milliseconds * 1e-3;
  return fmt::format("{:<28} {:>16} {:>6.4g} {:>9.2f} {:>6.1f} % {:>9.2f} {:>9.1f} {:>7.1f}\n", kernel, shape,
                     calls, milliseconds, share, floor, seconds > 0.0 ? cost.flops / seconds * 1e-9 : 0.0,
                     seconds > 0.0 ? cost.bytes / seconds * 1e-9 : 0.0);
}

}  // namespace

Profile make_profile(const std::vector<Meter::Line>& lines, int64_t steps, double seconds,
                     const Ceilings& ceilings) {
  Profile profile;
  profile.ceilings = ceilings;
  const double each = 1.0 / static_cast<double>(std::max<int64_t>(1, steps));
  profile.step_milliseconds = seconds * each * 1e3;
  for (const Meter::Line& line : lines) {
    const Cost cost{line.cost.flops * each, line.cost.bytes * each};
    const double arithmetic = ceilings.flops_per_second > 0.0 ? cost.flops / ceilings.flops_per_second : 0.0;
    const double traffic = ceilings.bytes_per_second > 0.0 ? cost.bytes / ceilings.bytes_per_second : 0.0;
    profile.lines.push_back({line.kernel, line.shape, static_cast<double>(line.calls) * each,
                             line.seconds * each * 1e3, std::max(arithmetic, traffic) * 1e3, cost});
    profile.kernel_milliseconds += profile.lines.back().milliseconds;
    profile.floor_milliseconds += profile.lines.back().floor_milliseconds;
  }
  return profile;
}

std::string Profile::table() const {
  std::string out = fmt::format("{:<28} {:>16} {:>6} {:>9} {:>8} {:>9} {:>9} {:>7}\n", "kernel", "m x n x k",
                                "calls", "ms", "share", "floor ms", "GFLOP/s", "GB/s");
  const auto share = [&](double ms) {
    return step_milliseconds > 0.0 ? 100.0 * ms / step_milliseconds : 0.0;
  };
  Cost all;
  for (const ProfileLine& line : lines) {
    out += row(line.kernel, line.shape, line.calls, line.milliseconds, share(line.milliseconds),
               line.floor_milliseconds, line.cost);
    all.flops += line.cost.flops;
    all.bytes += line.cost.bytes;
  }
  const double rest = step_milliseconds - kernel_milliseconds;
  out += row("outside of kernels", "", 0.0, rest, share(rest), 0.0, {});
  out += row("step", "", 1.0, step_milliseconds, 100.0, floor_milliseconds, all);
  return out + fmt::format("ceilings: {:.1f} GFLOP/s, {:.1f} GB/s\n", ceilings.flops_per_second * 1e-9,
                           ceilings.bytes_per_second * 1e-9);
}

}  // namespace athanor
