#include "athanor/observe/html/page.h"

#include <fmt/core.h>

#include "athanor/observe/html/frame.h"
#include "athanor/observe/html/text.h"
#include "athanor/observe/html/timeline.h"

namespace athanor::observe::html {
namespace {

std::string rows_table(const Rows& rows) {
  std::string text = "<table><tbody>\n";
  for (const auto& [name, value] : rows)
    text += "<tr><th>" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>\n";
  return text + "</tbody></table>";
}

}  // namespace

std::string page(const Page& page) {
  std::string text = page_start(page.title, page.status, page.time);
  if (!page.reason.empty()) text += "<p class=\"reason\">" + escaped(page.reason) + "</p>\n";
  for (const std::string& note : page.notes) text += "<p class=\"muted\">" + escaped(note) + "</p>\n";
  text += figures(page.figures) + "<section class=\"charts\">\n";
  for (const Chart& each : page.charts) text += chart(each);
  text += "</section>\n<h2>Timeline</h2><section class=\"box\">" + timeline(page.events);
  text += "</section>\n<h2>Incidents</h2><section class=\"box\">" + incident_table(page.events);
  text += "</section>\n<h2>Time lost by cause</h2><section class=\"box\">" + lost_time(page.events);
  text += "</section>\n<h2>The run</h2><section class=\"facts\">\n";
  for (const auto& [title, rows] : page.facts)
    if (!rows.empty())
      text += "<div class=\"box\"><h3>" + escaped(title) + "</h3>" + rows_table(rows) + "</div>\n";
  return text + "</section>\n" + page_end();
}

}  // namespace athanor::observe::html
