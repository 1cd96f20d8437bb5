#include "ledger.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/config/validate.h"
#include "athanor/data/batch.h"
#include "athanor/data/dataset.h"
#include "athanor/data/ledger.h"
#include "athanor/engine/state.h"
#include "athanor/observe/metrics.h"
#include "athanor/run/decisions/decision_log.h"
#include "athanor/run/init_from.h"
#include "athanor/run/resume_changes.h"
#include "checkpoint_path.h"
#include "command.h"
#include "data_settings.h"
#include "loaded_tokenizer.h"

namespace athanor::apps {
namespace {

struct Range {
  int64_t first_step, last_step;
};

Dataset open_data(const PhaseConfig& phase, ProgressLine& line) {
  return open_dataset(phase.config, system_env(),
                      {.threads = num_usable_cpus(),
                       .vocab_size = 0,
                       .steps = phase.last_step - phase.first_step + 1,
                       .tokenizer = nullptr,
                       .progress = show_tokenizing(line)});
}

Sampler sampler_of(const PhaseConfig& phase, const Dataset& data, const std::vector<Decision>& decisions) {
  return make_sampler(
      data.channels, phase.config.train.seed, phase.config.train.global_batch_size,
      {.name = phase.name, .first_step = phase.first_step, .skips = skips_of(decisions), .quarantine = {}},
      quarantines_of(decisions));
}

Json to_json(const LedgerReport& report, const Range& range) {
  Json channels = Json::array(), skips = Json::array();
  for (const LedgerChannel& channel : report.channels)
    channels.push_back({{"name", channel.name},
                        {"samples", channel.samples},
                        {"skipped", channel.skipped},
                        {"quarantined", channel.quarantined},
                        {"first_epoch", channel.first_epoch},
                        {"last_epoch", channel.last_epoch},
                        {"whole_epochs", channel.whole_epochs}});
  for (const BatchSkip& skip : report.skips)
    skips.push_back({{"step", skip.step}, {"batches", skip.batches}});
  return Json{{"first_step", range.first_step},
              {"last_step", range.last_step},
              {"samples", report.samples},
              {"skipped", report.skipped},
              {"quarantined", report.quarantined},
              {"skips", skips},
              {"hash", report.hash},
              {"ok", true},
              {"channels", channels}};
}

void print_ledger(const LedgerReport& report, const Range& range) {
  print(fmt::format("{}  steps {} to {}: {} samples, each sequence at most once per epoch of its channel\n",
                    report.hash, range.first_step, range.last_step, with_commas(report.samples)));
  for (const BatchSkip& skip : report.skips)
    print(
        fmt::format("  skipped at step {}: {} global batch{}, {} samples\n", skip.step,
                    with_commas(skip.batches), skip.batches == 1 ? "" : "es",
                    with_commas(skip.batches * (report.samples / (range.last_step - range.first_step + 1)))));
  for (const LedgerChannel& channel : report.channels)
    print(fmt::format(
        "  {:<16} {:>12} samples, {}{} whole epochs\n", printable(channel.name), with_commas(channel.samples),
        (channel.skipped > 0 ? with_commas(channel.skipped) + " skipped, " : "") +
            (channel.quarantined > 0 ? with_commas(channel.quarantined) + " in quarantine, " : ""),
        with_commas(channel.whole_epochs)));
}

struct LedgerCommand {
  std::string file, output, phase_name, decisions_file;
  std::vector<std::string> sets;
  int64_t first_step = 0, last_step = 0;
  bool json = false;

  // The whole run is one phase where the config has none.
  PhaseConfig phase_of(const Config& config) const {
    std::string names;
    for (const PhaseConfig& phase : phases_of(config)) {
      if (phase.name == phase_name) return phase;
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", phase.name);
    }
    throw ConfigError(
        config.phases.empty()
            ? fmt::format("--phase: got '{}', expected none: the config has no [[phase]]", phase_name)
            : fmt::format("--phase: got '{}', expected one of {}", phase_name, names));
  }

  void run() const {
    Env& env = system_env();
    check_overrides(sets,
                    {"data.", "phase", "train.seed", "train.steps", "train.global_batch_size", "train.runs",
                     "train.init_from", "model."},
                    "dataset ledger");
    const Config whole = load_config(env, file, sets, config_sources(env));
    validate_data(whole);
    const PhaseConfig phase = phase_of(whole);
    const Range range{first_step > 0 ? first_step : phase.first_step,
                      last_step > 0 ? last_step : phase.last_step};
    if (first_step < 0 || range.first_step < phase.first_step || range.last_step < range.first_step)
      throw ConfigError(fmt::format("steps {} to {}: expected a range from {} up",
                                    first_step < 0 ? first_step : range.first_step, range.last_step,
                                    phase.first_step));
    std::vector<Decision> decisions;
    if (!decisions_file.empty()) decisions = parse_decisions(env.read_text(decisions_file), decisions_file);
    ProgressLine line;
    const Dataset dataset = open_data(phase, line);
    say_warnings(dataset.tokenizer.get());
    const Sampler sampler = sampler_of(phase, dataset, decisions);
    const LedgerReport report = check_ledger(sampler, range.first_step, range.last_step);
    line.clear();
    if (!output.empty()) {
      const auto csv = env.create(output);
      write_ledger(sampler, range.first_step, range.last_step,
                   [&](std::string_view lines) { csv->append(lines); });
      csv->close();
    }
    if (json) return print_json(to_json(report, range));
    print_ledger(report, range);
  }
};

// What stands beside the checkpoints of a run: its decisions are those of the checkpoint, with some of steps that are not
// saved yet; its metrics say whether it begins with another run's checkpoint, whose steps its config does not tell.
void check_run(const std::string& run, const TrainState& state) {
  Env& env = system_env();
  const std::string file = join_path(run, kDecisionsName), metrics = join_path(run, "metrics.jsonl");
  if (!env.exists(join_path(run, "checkpoints"))) return;  // a checkpoint, not a run
  std::vector<Decision> recorded;
  if (env.exists(file)) recorded = parse_decisions(env.read_text(file), file);
  std::erase_if(recorded, [&](const Decision& decision) { return decision.step > state.step; });
  check(recorded == state.decisions, "'{}': its decisions up to step {} are not those of the checkpoint",
        file, state.step);
  const std::string text = env.exists(metrics) ? env.read_text(metrics) : "";
  if (const size_t end = text.find('\n'); end != std::string::npos) {
    const int64_t first = parse_metrics_line(std::string_view(text).substr(0, end)).step;
    check(first == 1,
          "'{}': begins at step {}, expected 1: athanor dataset ledger FILE.toml --phase NAME lists a "
          "phase that goes on from another run",
          run, first);
  }
}

}  // namespace

void verify_ledger(const std::string& run, bool json) {
  with_checkpoint_at(run, [&](const FoundCheckpoint& found) {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), found.path);
    const TrainState state = TrainState::from_json(checkpoint.state());
    const Config config = parse_config(checkpoint.file_text("config.resolved.toml"), found.path);
    check_run(run, state);
    Json phases = Json::array();
    ProgressLine line;
    for (const PhaseConfig& phase : phases_of(config)) {
      const Range range{phase.first_step, std::min(phase.last_step, state.step)};
      if (range.last_step < range.first_step) break;
      const Dataset data = open_data(phase, line);
      if (phases.empty()) say_warnings(data.tokenizer.get());
      if (range.last_step == state.step && data.identity != state.data_identity)
        fail("{} since the run trained", data_change(state.data_identity, data.identity));
      const LedgerReport report =
          check_ledger(sampler_of(phase, data, state.decisions), range.first_step, range.last_step);
      line.clear();
      Json entry = to_json(report, range);
      entry["name"] = phase.name;
      phases.push_back(std::move(entry));
      if (json) continue;
      if (!phase.name.empty()) print(fmt::format("phase {}\n", printable(phase.name)));
      print_ledger(report, range);
    }
    if (!json) return;
    Json document = {{"checkpoint", found.path}, {"last_step", state.step}, {"ok", true}, {"phases", phases}};
    found.note(document);
    print_json(document);
  });
}

void add_ledger(CLI::App& dataset) {
  auto command = std::make_shared<LedgerCommand>();
  CLI::App* app = dataset.add_subcommand(
      "ledger", "List the samples of a run's steps and prove each comes once per epoch");
  app->add_flag("--json", command->json, "print one JSON document");
  app->add_option("FILE.toml", command->file, "the run's config")->required();
  app->add_option("--set", command->sets, "section.key=value, as in train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app->add_option("--first-step", command->first_step,
                  "first step of the range (default: 1, or the phase's first)");
  app->add_option("--last-step", command->last_step, "last step (default: train.steps, or the phase's last)");
  app->add_option("--phase", command->phase_name, "of a config with [[phase]]: which one");
  app->add_option("--decisions", command->decisions_file, "decisions to follow, as in train: batches to skip")
      ->type_name("FILE.jsonl");
  app->add_option("--output,-o", command->output, "a CSV file for the samples themselves")->type_name("FILE");
  app->footer(
      "Examples:\n"
      "  athanor dataset ledger run.toml --last-step 1000 --output samples.csv\n"
      "  athanor dataset ledger run.toml --decisions runs/first/decisions.jsonl\n"
      "\n"
      "athanor dataset verify --ledger RUN checks what a run has trained on.");
  app->callback([command] { command->run(); });
}

}  // namespace athanor::apps
