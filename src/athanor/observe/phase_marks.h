// Where the phases of a run begin on a plot of its losses.
//
//   const std::vector<PhaseMark> marks = phase_marks({{"warm-up", 1}, {"stable", 21}}, metrics, PlotX::step);
//   const std::vector<std::string> names = names_that_fit({{0, "warm-up"}, {9, "stable"}}, 70);   // as much as has room
//
// A phase begins between the last step of the phase before and its own first step. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/loss_curves.h"

namespace athanor::observe {

struct BegunPhase {
  std::string name;
  int64_t first_step = 1;
};

struct PhaseMark {
  std::string name;
  double x = 0;
  bool is_first = false;  // where the curve begins: it has a name and needs no line
  bool operator==(const PhaseMark&) const = default;
};

// Of the phases that have a step in the metrics.
std::vector<PhaseMark> phase_marks(const std::vector<BegunPhase>& phases,
                                   const std::vector<StepMetrics>& metrics, PlotX x);

// Adds the marks of another run: those of one name at one place are one.
void add_marks(std::vector<PhaseMark>& marks, const std::vector<PhaseMark>& more);

// Names beginning at ascending columns, in a row of so many columns. Each has the room up to the next one: a longer one is
// cut with `cut` at its end, and is "" where hardly anything would be left. Of several at one column the last stays.
std::vector<std::string> names_that_fit(const std::vector<std::pair<size_t, std::string>>& names,
                                        size_t columns, const std::string& cut = "…");

}  // namespace athanor::observe
