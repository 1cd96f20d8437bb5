// report.html: what a run did, as one file that loads nothing: no scripts, no fonts, no links.
//
//   env.write_atomically("runs/first/report.html", page({.title = "first", .status = "finished", .events = events}));
//
// Light or dark as the reader's system is; from 380 pixels of width on. All texts are escaped. Thread rule: pure function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/event_log.h"
#include "athanor/observe/html/chart.h"

namespace athanor::observe::html {

using Rows = std::vector<std::pair<std::string, std::string>>;

struct Page {
  std::string title = {}, status = {}, reason = {}, time = {};
  Rows figures = {};                    // large, above all
  std::vector<std::string> notes = {};  // what was left out
  std::vector<Chart> charts = {};
  std::vector<RunEvent> events = {};
  std::vector<std::pair<std::string, Rows>> facts = {};
};

std::string page(const Page& page);

}  // namespace athanor::observe::html
