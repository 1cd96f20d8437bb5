// Pictures of a simulated schedule: text for a terminal, SVG for documents.
//
//   rank 0 | F0 F1 F2 B0    B1    ...
//
//   print(draw_text(schedule, simulate(schedule, costs), /*columns=*/100));
//
// A row per rank, time to the right, the micro-batch number in each action. Text shows idle time as dots, and every
// second stage of a rank in small letters; SVG shows those stages in paler colours. Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor::pipeline {

// Lines of at most `columns` characters. Where a schedule is too long for that, actions lose their numbers
// first.
std::string draw_text(const Schedule& schedule, const Simulation& run, int columns);
// One self-contained picture: no scripts, no fonts, no links.
std::string draw_svg(const Schedule& schedule, const Simulation& run);

}  // namespace athanor::pipeline
