// Pictures of what a schedule does: as text for a terminal, as SVG for documents.
//
//   rank 0 | F0 F1 F2 B0    B1    ...
//
// A row for each rank, time to the right, the micro-batch in each action. In text, idle time is dotted, and
// of a rank's stages every second one has small letters; in SVG they are the paler ones. Thread rule: pure
// functions.
#pragma once

#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor {

// Lines of at most `columns` characters. Where a schedule is too long for that, actions lose their numbers
// first.
std::string draw_text(const Schedule& schedule, const Simulation& run, int columns);
// One self-contained picture: no scripts, no fonts, no links.
std::string draw_svg(const Schedule& schedule, const Simulation& run);

}  // namespace athanor
