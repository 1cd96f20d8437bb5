// athanor schedule: what a pipeline schedule does with given times, before anything runs by it.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "apps/command_line/terminal.h"
#include "apps/measure/stage_times.h"
#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/observe/report.h"
#include "athanor/pipeline/csv.h"
#include "athanor/pipeline/draw.h"
#include "athanor/pipeline/generators.h"
#include "athanor/pipeline/solve.h"
#include "command.h"

namespace athanor::apps {
namespace {

struct ScheduleCommand {
  std::string name;
  int ranks = 0, micro_batches = 0, virtual_stages = 0;  // 0: not given
  std::vector<std::string> times;
  double link = 0.0, memory = 0.0;
  std::string svg, csv;
  bool json = false;

  void run();

 private:
  bool is_file() const { return name.ends_with(".csv"); }
  bool is_solved() const { return name == kAuto; }
  Schedule make() const;
  Costs costs_of(int num_stages) const;
  void check_file(const Schedule& schedule) const;
  void check_memory() const;
  std::optional<double> closed_form() const;
  void write_files() const;
  Report report() const;
  void show() const;

  Schedule schedule_;
  Costs costs_;
  Simulation run_;
  std::string made_from_;
};

Costs ScheduleCommand::costs_of(int num_stages) const {
  std::vector<StageCost> stages;
  for (const std::string& each : times) stages.push_back(parse_stage_times("schedule", each));
  if (stages.empty()) stages.emplace_back();
  if (stages.size() == 1) stages.resize(static_cast<size_t>(num_stages), StageCost(stages.front()));
  if (static_cast<int>(stages.size()) != num_stages)
    throw ConfigError(
        fmt::format("schedule: --times: got the times of {} stages, expected {}, or one for all",
                    stages.size(), num_stages));
  return {stages, link};
}

void ScheduleCommand::check_file(const Schedule& schedule) const {
  const auto agree = [&](const char* option, int given, int got) {
    check(given == 0 || given == got, "schedule '{}': got {} {}, expected {} as in the file", schedule.name,
          option, given, got);
  };
  agree("--ranks", ranks, schedule.num_ranks());
  agree("--micro-batches", micro_batches, schedule.micro_batches);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    agree("--virtual-stages", virtual_stages, static_cast<int>(schedule.stages_of(rank).size()));
}

Schedule ScheduleCommand::make() const {
  if (is_file()) {
    Schedule schedule = load_schedule(system_env(), name);
    check_file(schedule);
    return schedule;
  }
  std::vector<std::string> names = schedule_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.emplace_back(kAuto);
    const std::string nearest = name == "solve" ? kAuto : nearest_name(name, names);  // its name of before
    throw ConfigError(fmt::format("schedule: got '{}', expected {}, or a file that ends in .csv",
                                  printable(name), fmt::join(names, ", ")),
                      nearest.empty() ? "" : "did you mean '" + nearest + "'?");
  }
  return make_schedule(name, {ranks, micro_batches, virtual_stages});
}

void ScheduleCommand::check_memory() const {
  const auto& peaks = run_.peak_activations;
  const auto most = std::max_element(peaks.begin(), peaks.end());
  if (memory > 0.0 && *most > memory)
    throw Error(fmt::format("schedule '{}': got a peak of {} activations on rank {}, expected at most {}",
                            schedule_.name, *most, most - peaks.begin(), memory),
                "athanor schedule auto makes the shortest one that it finds within a limit");
}

// For stages of equal length and communication that takes no time.
std::optional<double> ScheduleCommand::closed_form() const {
  const StageCost& first = costs_.stages.front();
  const bool even = std::all_of(costs_.stages.begin(), costs_.stages.end(), [&](const StageCost& each) {
    return each.forward == first.forward && each.input == first.input && each.weight == first.weight;
  });
  if (is_file() || is_solved() || !even || costs_.link > 0.0) return std::nullopt;
  return closed_form_bubble(name, {schedule_.num_ranks(), schedule_.micro_batches, virtual_stages}, first);
}

void ScheduleCommand::write_files() const {
  if (!csv.empty()) system_env().write_atomically(csv, to_csv(schedule_));
  if (!svg.empty()) system_env().write_atomically(svg, draw_svg(schedule_, run_));
}

Report list_of(const std::vector<double>& values) {
  Report list;
  for (const double value : values) list.push_back(value);
  return list;
}

Report ScheduleCommand::report() const {
  Report report;
  report["name"] = schedule_.name;
  if (is_solved()) report["made_from"] = made_from_;
  report["ranks"] = schedule_.num_ranks();
  report["stages"] = schedule_.num_stages();
  report["micro_batches"] = schedule_.micro_batches;
  for (const int rank : schedule_.rank_of_stage) report["rank_of_stage"].push_back(rank);
  for (const StageCost& cost : costs_.stages)
    report["times"].push_back(list_of({cost.forward, cost.input, cost.weight}));
  report["link"] = link;
  report["makespan"] = run_.makespan;
  report["bubble"] = run_.bubble;
  report["closed_form_bubble"] = closed_form().value_or(std::nan(""));
  report["bubble_share"] = run_.bubble_share;
  report["busy"] = list_of(run_.busy);
  report["peak_activations"] = list_of(run_.peak_activations);
  for (const auto& actions : schedule_.ranks) {
    Report list;
    for (const Action& action : actions) list.push_back(str(action));
    report["actions"].push_back(list);
  }
  return report;
}

void ScheduleCommand::show() const {
  std::string text = fmt::format("{}: {} rank{}, {} stage{}, {} micro-batch{}\n", schedule_.name,
                                 schedule_.num_ranks(), schedule_.num_ranks() == 1 ? "" : "s",
                                 schedule_.num_stages(), schedule_.num_stages() == 1 ? "" : "s",
                                 schedule_.micro_batches, schedule_.micro_batches == 1 ? "" : "es");
  text += draw_text(schedule_, run_, static_cast<int>(terminal_columns(stdout)));
  text += fmt::format("makespan {:.6g}, bubble {:.6g}", run_.makespan, run_.bubble);
  if (const auto form = closed_form()) text += fmt::format(" (closed form {:.6g})", *form);
  text += fmt::format(", {:.1f} % of all ranks' time idle\n", 100.0 * run_.bubble_share);
  text += fmt::format("peak activations per rank, in micro-batches of a stage: {:.6g}\n",
                      fmt::join(run_.peak_activations, " "));
  if (is_solved()) text += fmt::format("made from: {}\n", made_from_);
  for (const std::string& file : {csv, svg})
    if (!file.empty()) text += fmt::format("wrote {}\n", printable(file));
  std::cout << text;
}

void ScheduleCommand::run() {
  if (!is_file()) {
    if (ranks == 0) ranks = 4;
    if (micro_batches == 0) micro_batches = 8;
  }
  if (is_solved()) {
    if (virtual_stages == 0) virtual_stages = 1;
    check_shape({ranks, micro_batches, virtual_stages});
    costs_ = costs_of(ranks * virtual_stages);
    Solution solution = solve({ranks, micro_batches, virtual_stages, costs_, memory});
    schedule_ = std::move(solution.schedule);
    run_ = std::move(solution.run);
    made_from_ = std::move(solution.made_from);
  } else {
    schedule_ = make();
    costs_ = costs_of(schedule_.num_stages());
    run_ = simulate(schedule_, costs_);
    check_memory();
  }
  write_files();
  if (json) {
    std::cout << report().to_json();
  } else {
    show();
  }
}

}  // namespace

void add_schedule(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("schedule", "Show, save and find pipeline schedules");
  auto command = std::make_shared<ScheduleCommand>();
  sub->add_option(
         "NAME|FILE.csv", command->name,
         "gpipe, 1f1b, interleaved, bfs, zb-h1, zb-v or dualpipe-v; a schedule of your own; or auto: the "
         "shortest that is found within --memory")
      ->required();
  const auto count = CLI::Range(1, 1 << 20);
  sub->add_option("--ranks", command->ranks, "Ranks of the pipeline (default: 4, or the file's)")
      ->check(count);
  sub->add_option("--micro-batches", command->micro_batches,
                  "Micro-batches of a step (default: 8, or the file's)")
      ->check(count);
  sub->add_option(
         "--virtual-stages", command->virtual_stages,
         "Stages of a rank (default: the schedule's: 2 for interleaved, zb-v and dualpipe-v, else 1)")
      ->check(count);
  sub->add_option("--times", command->times,
                  "F,B,W: times of a stage's forward, input gradient and weight gradient for a micro-batch; "
                  "one for all "
                  "stages, or one for each (default: 1,1,1)")
      ->allow_extra_args(false);
  sub->add_option("--link", command->link, "Time from one rank to another")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--memory", command->memory,
                  "Max in-flight activations per rank (unit: one micro-batch on one stage); 0: no limit")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--svg", command->svg, "Draw a picture into this file");
  sub->add_option("--csv", command->csv, "Save the schedule in this file");
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Examples:\n"
      "  athanor schedule zb-v --ranks 4 --micro-batches 12 --svg zb-v.svg\n"
      "  athanor schedule auto --ranks 4 --micro-batches 16 --times 9.8,11.2,8.1 --memory 6 --csv mine.csv");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
