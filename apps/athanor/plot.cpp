// athanor plot RUN...: the losses of runs, in the terminal and as a picture.
#include "athanor/observe/plot.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "apps/command_line/print.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/run/begun_phases.h"
#include "athanor/run/report.h"
#include "athanor/run/run_folder.h"
#include "command.h"

namespace athanor::apps {
namespace {

struct FoundRun {
  PlotRun plot;
  std::string folder;
  int64_t damaged_lines = 0;
};

struct PlotCommand {
  std::vector<std::string> paths;
  std::string x = "step", svg;
  bool log_scale = false, no_svg = false, json = false;

  void run() const;
  void show(const std::vector<FoundRun>& runs, PlotX axis, const std::string& picture) const;
};

std::string run_name(const std::string& folder) {
  return std::filesystem::absolute(folder).lexically_normal().filename().string();
}

// "runs/first/", "runs/first/metrics.jsonl" or something within: the folder that holds the metrics.
std::string run_folder(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string name = "metrics.jsonl";
  Env& env = system_env();
  if (run_name(path) == name && env.exists(path)) return parent_folder(path);
  if (env.exists(join_path(path, name))) return path;
  std::string hint = "give the folder of a run, such as runs/first";
  for (std::string above = parent_folder(path); above != "." && above != "/"; above = parent_folder(above))
    if (env.exists(join_path(above, name))) hint = "did you mean '" + printable(above) + "'?";
  throw Error(fmt::format("plot: '{}' {}", printable(path),
                          env.exists(path) ? "holds no metrics.jsonl, as a run does" : "does not exist"),
              hint);
}

// A run that is going on, was killed or lost lines: what can be read of it is drawn. A last line without its end is still
// being written.
FoundRun read_run(const std::string& path) {
  FoundRun run{.plot = {}, .folder = run_folder(path)};
  check_run_format(system_env(), run.folder);
  const std::string text = system_env().read_text(join_path(run.folder, "metrics.jsonl"));
  int64_t last_step = 0;
  for (size_t first = 0, end = 0; (end = text.find('\n', first)) != std::string::npos; first = end + 1) {
    const std::string_view line = std::string_view(text).substr(first, end - first);
    if (line.empty()) continue;
    try {
      StepMetrics metrics = parse_metrics_line(line);
      check(metrics.step > last_step, "a step is not after the one before it");
      last_step = metrics.step;
      run.plot.metrics.push_back(std::move(metrics));
    } catch (const Error&) {
      ++run.damaged_lines;
    }
  }
  if (run.plot.metrics.empty())
    throw Error(fmt::format("plot: '{}' has no finished step yet", printable(run.folder)), "");
  TrainReport report;
  const std::string file = join_path(run.folder, "report.json");
  if (system_env().exists(file)) report.restore(system_env().read_text(file));
  run.plot.phases = begun_phases(system_env(), run.folder, report, run.plot.metrics.front().step);
  run.plot.metrics =
      with_first_evaluation(std::move(run.plot.metrics), report.valid_loss_first, report.channel_loss_first);
  return run;
}

// The last part of the path, or all of it where two runs end alike.
void name_runs(std::vector<FoundRun>& runs) {
  std::set<std::string> names;
  for (const FoundRun& run : runs) names.insert(run_name(run.folder));
  for (FoundRun& run : runs) run.plot.name = names.size() == runs.size() ? run_name(run.folder) : run.folder;
}

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json to_json(const FoundRun& run) {
  double train = std::nan(""), valid = train, best = train;
  int64_t best_step = 0;
  for (const StepMetrics& m : run.plot.metrics) {
    if (std::isfinite(m.loss)) train = m.loss;
    if (!m.valid_loss || !std::isfinite(*m.valid_loss)) continue;
    valid = *m.valid_loss;
    if (std::isfinite(best) && best <= valid) continue;
    best = valid;
    best_step = m.step;
  }
  return {{"run", run.folder},
          {"step", run.plot.metrics.back().step},
          {"tokens", run.plot.metrics.back().tokens},
          {"train_loss_last", number_or_null(train)},
          {"valid_loss_last", number_or_null(valid)},
          {"valid_loss_best", number_or_null(best)},
          {"valid_loss_best_step", std::isfinite(best) ? Json(best_step) : Json()},
          {"damaged_lines", run.damaged_lines}};
}

void PlotCommand::show(const std::vector<FoundRun>& runs, PlotX axis, const std::string& picture) const {
  if (json) {
    Json document{{"runs", Json::array()}, {"svg", picture.empty() ? Json() : Json(picture)}};
    for (const FoundRun& run : runs) document["runs"].push_back(to_json(run));
    return print_json(document);
  }
  const auto console = make_console(false, 1);
  std::vector<LossCurve> curves;
  std::vector<PhaseMark> phases;
  for (const FoundRun& run : runs) {
    if (run.damaged_lines > 0)
      console->warning(fmt::format("{}: {} damaged line{} of metrics.jsonl left out", run.plot.name,
                                   run.damaged_lines, run.damaged_lines == 1 ? "" : "s"));
    for (LossCurve& curve : loss_curves(run.plot.metrics, runs.size() == 1 ? "" : run.plot.name, axis))
      curves.push_back(std::move(curve));
    add_marks(phases, phase_marks(run.plot.phases, run.plot.metrics, axis));
  }
  if (!console->plot(curves, phases, log_scale, plot_x_name(axis)))
    console->message("there are fewer than two losses that can be drawn");
  if (!picture.empty()) console->message("picture: " + picture);
}

void PlotCommand::run() const {
  const PlotX axis = x == "tokens" ? PlotX::tokens : x == "time" ? PlotX::time : PlotX::step;
  std::vector<FoundRun> runs;
  runs.reserve(paths.size());
  for (const std::string& path : paths) runs.push_back(read_run(path));
  name_runs(runs);
  std::string picture;
  if (!no_svg) {
    // Beside the metrics of one run, beside the folders of several.
    picture = !svg.empty()       ? svg
              : runs.size() == 1 ? join_path(runs[0].folder, "loss.svg")
                                 : join_path(parent_folder(runs[0].folder), "loss.svg");
    std::vector<PlotRun> drawn;
    std::string title;
    for (const FoundRun& run : runs) {
      drawn.push_back(run.plot);
      title += (title.empty() ? "" : ", ") + run.plot.name;
    }
    system_env().write_atomically(picture, loss_svg(drawn, title, {.x = axis, .log_scale = log_scale}));
  }
  show(runs, axis, picture);
}

}  // namespace

void add_plot(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("plot", "Draw the losses of one run or compare several");
  auto command = std::make_shared<PlotCommand>();
  sub->add_option("RUN", command->paths, "Folders of runs, finished, going on or ended halfway")->required();
  sub->add_option("--x", command->x, "step, tokens or time (hours of training)")
      ->capture_default_str()
      ->check(CLI::IsMember({"step", "tokens", "time"}));
  sub->add_flag("--log", command->log_scale, "Draw losses on a logarithmic scale");
  auto* no_svg = sub->add_flag("--no-svg", command->no_svg, "Write no picture");
  sub->add_option("--svg", command->svg,
                  "The picture to write (default: loss.svg in the run, or beside several runs)")
      ->type_name("FILE")
      ->excludes(no_svg);
  sub->add_flag("--json", command->json, "Print one JSON document with the last and best losses");
  sub->footer(
      "Examples:\n"
      "  athanor plot runs/quickstart\n"
      "  athanor plot runs/a runs/b --x tokens --log --svg compared.svg");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
