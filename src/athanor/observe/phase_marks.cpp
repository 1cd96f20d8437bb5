#include "athanor/observe/phase_marks.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/human.h"

namespace athanor::observe {

std::vector<PhaseMark> phase_marks(const std::vector<BegunPhase>& phases,
                                   const std::vector<StepMetrics>& metrics, PlotX x) {
  std::vector<PhaseMark> marks;
  double seconds = 0, before = 0;
  bool has_begun = false;
  auto phase = phases.begin();
  for (const StepMetrics& m : metrics) {
    if (std::isfinite(m.step_seconds)) seconds += m.step_seconds;
    const double at = plot_x(x, m, seconds);
    for (; m.step > 0 && phase != phases.end() && phase->first_step <= m.step; ++phase)
      marks.push_back({phase->name, has_begun ? (before + at) / 2 : at, !has_begun});
    has_begun = has_begun || m.step > 0;
    before = at;
  }
  return marks;
}

void add_marks(std::vector<PhaseMark>& marks, const std::vector<PhaseMark>& more) {
  for (const PhaseMark& mark : more)
    if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
  std::ranges::stable_sort(marks, {}, &PhaseMark::x);
}

std::vector<std::string> names_that_fit(const std::vector<std::pair<size_t, std::string>>& names,
                                        size_t columns, const std::string& cut) {
  constexpr size_t kLeast = 4;
  std::vector<std::string> fitting;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [column, name] = names[i];
    const bool is_last = i + 1 == names.size();
    const size_t end = is_last ? columns : names[i + 1].first - std::min<size_t>(1, names[i + 1].first);
    const size_t room = end > column ? end - column : 0;
    if (display_width(name) <= room)
      fitting.push_back(name);
    else if (room >= kLeast)
      fitting.push_back(std::string(fit_columns(name, room - display_width(cut))) + cut);
    else
      fitting.emplace_back();
  }
  return fitting;
}

}  // namespace athanor::observe
