#include "athanor/observe/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/observe/report.h"

namespace athanor::observe {
namespace {

constexpr double kShownShare = 0.005;

struct Part {
  const char* name;
  double StepParts::*value;
};
constexpr std::array<Part, 5> kParts = {{{"data", &StepParts::data},
                                         {"forward", &StepParts::forward},
                                         {"backward", &StepParts::backward},
                                         {"comm", &StepParts::comm},
                                         {"update", &StepParts::update}}};

double percent_of(double part, double whole) {
  return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

void add(ProfileLine& sum, const ProfileLine& line) {
  sum.calls += line.calls;
  sum.milliseconds += line.milliseconds;
  sum.floor_milliseconds += line.floor_milliseconds;
  sum.cost.flops += line.cost.flops;
  sum.cost.bytes += line.cost.bytes;
}

std::string row(const ProfileLine& line, double step_milliseconds) {
  const double seconds = line.milliseconds * 1e-3;
  return fmt::format("{:<26} {:>16} {:>6.4g} {:>9.2f} {:>7.1f} {:>8.2f} {:>7.1f} {:>8.1f} {:>5.1f}\n",
                     line.kernel, line.shape, line.calls, line.milliseconds,
                     percent_of(line.milliseconds, step_milliseconds), line.floor_milliseconds,
                     std::min(100.0, percent_of(line.floor_milliseconds, line.milliseconds)),
                     seconds > 0.0 ? line.cost.flops / seconds * 1e-9 : 0.0,
                     seconds > 0.0 ? line.cost.bytes / seconds * 1e-9 : 0.0);
}

}  // namespace

void Profiler::add_step(double seconds, const StepParts& seconds_of) {
  ++steps_;
  seconds_ += seconds;
  for (const Part& part : kParts) parts_.*part.value += seconds_of.*part.value;
}

void Profiler::clear() {
  meter.clear();
  steps_ = 0;
  seconds_ = 0.0;
  parts_ = {};
}

Profile Profiler::profile() const {
  Profile profile;
  profile.ceilings = ceilings;
  profile.steps = steps_;
  const double each = 1.0 / static_cast<double>(std::max<int64_t>(1, steps_));
  profile.step_milliseconds = seconds_ * each * 1e3;
  for (const Part& part : kParts) profile.milliseconds.*part.value = parts_.*part.value * each * 1e3;
  for (const Meter::Line& line : meter.lines()) {
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
  std::string out =
      fmt::format("{:<26} {:>16} {:>6} {:>9} {:>7} {:>8} {:>7} {:>8} {:>5}\n", "kernel", "m x n x k", "calls",
                  "ms", "% step", "bound ms", "% ceil.", "GFLOP/s", "GB/s");
  ProfileLine all, others;
  int64_t num_others = 0;
  for (const ProfileLine& line : lines) {
    add(all, line);
    if (line.milliseconds >= kShownShare * step_milliseconds) {
      out += row(line, step_milliseconds);
    } else {
      add(others, line);
      ++num_others;
    }
  }
  others.kernel = fmt::format("others ({})", num_others);
  if (num_others > 0) out += row(others, step_milliseconds);
  ProfileLine outside{.kernel = "outside of kernels", .shape = {}, .cost = {}};
  outside.milliseconds = step_milliseconds - kernel_milliseconds;
  out += row(outside, step_milliseconds);
  all.kernel = "step";
  all.calls = 1.0;
  all.milliseconds = step_milliseconds;
  out += row(all, step_milliseconds);
  double between = step_milliseconds;
  std::string names = fmt::format("\n{:<8}", "part"), times = fmt::format("\n{:<8}", "ms"),
              shares = fmt::format("\n{:<8}", "% step");
  const auto column = [&](const char* name, double value) {
    names += fmt::format(" {:>9}", name);
    times += fmt::format(" {:>9.2f}", value);
    shares += fmt::format(" {:>9.1f}", percent_of(value, step_milliseconds));
  };
  for (const Part& part : kParts) {
    column(part.name, milliseconds.*part.value);
    between -= milliseconds.*part.value;
  }
  column("between", between);
  return out + names + times + shares +
         fmt::format(
             "\nmean of {} steps\n"
             "bound ms: the time at the measured peaks, {:.1f} GFLOP/s and {:.1f} GB/s of memory, the "
             "longer "
             "one\n"
             "% ceil.:  bound over time, at most 100 (operands that stay in a cache would exceed it)\n"
             "outside of kernels: everything else in the step, waiting included\n",
             steps, ceilings.flops_per_second * 1e-9, ceilings.bytes_per_second * 1e-9);
}

std::string Profile::to_json() const {
  Report report;
  report["steps"] = steps;
  report["step_ms"] = step_milliseconds;
  report["kernels_ms"] = kernel_milliseconds;
  report["floor_ms"] = floor_milliseconds;
  for (const Part& part : kParts) report["parts_ms"][part.name] = milliseconds.*part.value;
  report["ceilings"]["gflops"] = ceilings.flops_per_second * 1e-9;
  report["ceilings"]["gbytes_per_second"] = ceilings.bytes_per_second * 1e-9;
  for (const ProfileLine& line : lines) {
    Report entry;
    entry["kernel"] = line.kernel;
    entry["shape"] = line.shape;
    entry["calls"] = line.calls;
    entry["ms"] = line.milliseconds;
    entry["floor_ms"] = line.floor_milliseconds;
    entry["flops"] = line.cost.flops;
    entry["bytes"] = line.cost.bytes;
    report["kernels"].push_back(std::move(entry));
  }
  return report.to_json();
}

}  // namespace athanor::observe
