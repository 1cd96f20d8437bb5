// report.html, the page of a run: its losses, speed, incidents and settings, from the files of its folder.
//
//   const RunPage page = make_run_page(env, "runs/first");      // finished, going on, or ended halfway
//   env.write_atomically("runs/first/report.html", page.text);
//   leave_run_page(env, "runs/first", warn);                    // both; whoever writes report.json does, at the end
//
// Errors: those of reading. Damaged lines are left out and counted. Thread rule: no shared state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::apps {

constexpr const char* kRunPageName = "report.html";

struct RunPage {
  std::string text = {};    // HTML that loads nothing
  std::string status = {};  // of the run; "": not known
  std::vector<std::string> notes = {};
  int64_t step = 0, num_incidents = 0, damaged_lines = 0;
};

RunPage make_run_page(Env& env, const std::string& folder);
// A failure is a warning: a run that has ended well has ended well.
void leave_run_page(Env& env, const std::string& folder,
                    const std::function<void(const std::string& text)>& warn);

}  // namespace athanor::apps
