// A chart of a page: lines over the steps, as inline SVG that stretches, with labels that keep their size.
//
//   const std::string text = chart({.title = "Loss", .lines = {{.name = "train", .points = losses.points()}}});
//
// Colours come from the style of the page (page.h). Values that are not finite leave gaps. Where a few values are far above
// all others the scale is logarithmic. Thread rule: pure function.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/loss_curves.h"

namespace athanor::observe::html {

struct ChartLine {
  std::string name;
  int color = 0;         // of the page's palette, 0 to 8; 0: ink
  bool is_dots = false;  // few values: dots joined by a line
  bool is_faint = false;
  std::vector<CurvePoint> points = {};
};

struct ChartMark {
  double x = 0;
  std::string name;
  bool is_failure = false;
};

struct Chart {
  std::string title;
  bool from_zero = false;
  std::vector<ChartLine> lines = {};
  std::vector<ChartMark> marks = {};
};

std::string chart(const Chart& chart);

}  // namespace athanor::observe::html
