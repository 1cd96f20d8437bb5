#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/pipeline/draw.h"

namespace athanor::pipeline {
namespace {

// Columns per unit of time. The shortest action gets room for its label and a blank, or fewer whole columns if the
// picture would not fit otherwise.
double columns_per_time(const Schedule& schedule, const Simulation& run, double columns) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& events : run.timeline)
    for (const Event& event : events)
      if (event.end > event.start) shortest = std::min(shortest, event.end - event.start);
  if (run.makespan <= 0.0) return 0.0;
  for (size_t width = std::to_string(schedule.micro_batches - 1).size() + 2; width > 0; --width)
    if (static_cast<double>(width) / shortest * run.makespan <= columns)
      return static_cast<double>(width) / shortest;
  return columns / run.makespan;
}

}  // namespace

std::string draw_text(const Schedule& schedule, const Simulation& run, int columns) {
  const std::string last = std::to_string(schedule.num_ranks() - 1);
  const auto margin = static_cast<int>(last.size()) + 8;  // "rank 0 | "
  const double scale = columns_per_time(schedule, run, std::max(1, columns - margin));
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time * scale)); };
  std::string text;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    std::string row(column(run.makespan), '.');
    const std::vector<int> stages = schedule.stages_of(rank);
    for (const Event& event : run.timeline[static_cast<size_t>(rank)]) {
      const size_t first = column(event.start), width = column(event.end) - first;
      const auto chunk = std::lower_bound(stages.begin(), stages.end(), event.action.stage) - stages.begin();
      const char act = static_cast<char>(event.action.act);
      std::string label(1, chunk % 2 == 0 ? act : static_cast<char>(std::tolower(act)));
      const std::string number = std::to_string(event.action.micro_batch);
      if (width > number.size()) label += number;
      label.resize(width, ' ');
      row.replace(first, width, label);
    }
    while (!row.empty() && row.back() == ' ') row.pop_back();
    text += fmt::format("rank {:>{}} | {}\n", rank, last.size(), row);
  }
  return text;
}

}  // namespace athanor::pipeline
