// athanor report RUN: report.html, the page of a run.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "apps/command_line/print.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/run/run_history.h"
#include "command.h"
#include "run_page.h"

namespace athanor::apps {
namespace {

struct ReportCommand {
  std::string path, output;
  bool json = false;

  void run() const;
};

void ReportCommand::run() const {
  std::string folder = path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  Env& env = system_env();
  if (!env.exists(join_path(folder, "config.resolved.toml")) &&
      !env.exists(join_path(folder, "metrics.jsonl")))
    throw Error(fmt::format("report: '{}' {}", printable(folder),
                            env.exists(folder) ? "is not the folder of a run" : "does not exist"),
                "give the folder of a run, such as runs/first");
  check_run_format(env, folder);
  const RunPage page = make_run_page(env, folder);
  const std::string file = output.empty() ? join_path(folder, kRunPageName) : output;
  env.write_atomically(file, page.text);
  if (json)
    return print_json(Json{{"run", folder},
                           {"html", file},
                           {"status", page.status.empty() ? Json() : Json(page.status)},
                           {"step", page.step},
                           {"incidents", page.num_incidents},
                           {"damaged_lines", page.damaged_lines}});
  const auto console = make_console(false, 1);
  for (const std::string& note : page.notes) console->warning(note);
  console->message("report: " + file);
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("report", "Write report.html, a page on a run");
  auto command = std::make_shared<ReportCommand>();
  sub->add_option("RUN", command->path, "Folder of a run, finished, going on or ended halfway")->required();
  sub->add_option("--output", command->output, "The page to write (default: report.html in the run)")
      ->type_name("FILE");
  sub->add_flag("--json", command->json, "Print one JSON document that names the page");
  sub->footer(
      "The page loads nothing: no scripts, no fonts, no links.\n"
      "Examples:\n"
      "  athanor report runs/quickstart\n"
      "  athanor report runs/quickstart --output first.html");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
