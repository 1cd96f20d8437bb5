// What one family of rules is made of: a table of its scores with the limits of the rules on them, and the function
// that fills them in.
//
//   const Family family = gopher_quality();
//   TextView view(document.text);
//   family.measure(document, view, values);     // a value for each of family.measures
//
// A rule drops what lies outside [least, most]. All published rules that are here drop above or below their number,
// never at it, so that a document exactly at a limit is kept by all of them.
// A new family is a file here and a line of the presets in heuristics.cpp. Thread rule: pure functions.
#pragma once

#include <cmath>
#include <span>

#include "athanor/corpus/document.h"
#include "athanor/corpus/heuristics/text_view.h"

namespace athanor::corpus::heuristics {

inline constexpr double kNoLeast = -INFINITY;

struct Measure {
  const char* name;
  const char* formula;
  double least = kNoLeast;
  double most = INFINITY;  // with neither limit: a score without a rule
};

struct Family {
  std::span<const Measure> measures;
  // May change the document's text, of which the view speaks until then; such a family is the last of its preset.
  void (*measure)(Document& document, TextView& view, std::span<double> values);
};

Family gopher_quality();     // Rae et al. 2021 (arXiv:2112.11446), as datatrove computes it
Family gopher_repetition();  // the same paper, table A1
Family c4();                 // Raffel et al. 2020 (JMLR 21/140), as datatrove computes it; changes the text
Family c4_any_line_end();    // the same, keeping lines without a terminal mark: the form that FineWeb uses
Family fineweb();            // Penedo et al. 2024 (arXiv:2406.17557)
Family curator();            // NeMo Curator's set for English
Family code();               // NeMo Curator's set for code
Family zh();                 // ours, for Chinese

}  // namespace athanor::corpus::heuristics
