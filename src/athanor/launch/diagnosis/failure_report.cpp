#include "athanor/launch/diagnosis/failure_report.h"

#include <fmt/core.h>

#include "athanor/base/human.h"
#include "athanor/observe/log.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr size_t kColumns = 160;  // of a line that the rank wrote

std::string plural(int count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string others_of(const FailureReport& report) {
  std::string text;
  if (report.num_others > 0) text = plural(report.num_others, "rank") + " failed after it";
  if (report.num_other_lines > 0)
    text += fmt::format("{}{} of other ranks {} not shown", text.empty() ? "" : "; ",
                        plural(report.num_other_lines, "line"), report.num_other_lines == 1 ? "is" : "are");
  return text;
}

std::string output_of(const FailureReport& report) {
  if (!report.file.empty())
    return fmt::format("its last output: {}{}", report.file, report.lines.empty() ? "" : ", which ends with");
  std::string text = report.lines.empty() ? "" : "it wrote at last";
  if (!report.not_written.empty())
    text +=
        fmt::format("{}its output could not be written: {}", text.empty() ? "" : "; ", report.not_written);
  return text;
}

}  // namespace

std::string text_of(const FailureReport& report) {
  std::string text = fmt::format("    where: process {} on {}", report.process, report.host);
  if (report.step >= 0) text += fmt::format(", after step {}", report.step);
  if (report.generation > 0) text += fmt::format(", generation {}", report.generation);
  text += fmt::format("\n    when: {}", observe::utc_time(report.wall_seconds));
  if (report.seconds_after_step >= 0.0)
    text += fmt::format(", {} after that step", human_seconds(report.seconds_after_step));
  if (!report.why.empty()) text += "\n    why: " + report.why;
  if (!report.hardware.empty()) text += "\n    hardware: since the start " + report.hardware;
  if (const std::string others = others_of(report); !others.empty()) text += "\n    others: " + others;
  if (const std::string output = output_of(report); !output.empty()) text += "\n    " + output;
  for (const std::string& line : report.lines) {
    const std::string shown = printable(line);
    const std::string_view fitting = fit_columns(shown, kColumns);
    text += fmt::format("\n      {}{}", fitting, fitting.size() < shown.size() ? "..." : "");
  }
  return text;
}

}  // namespace athanor::launch::diagnosis
