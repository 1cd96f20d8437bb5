// athanor verify FILE.toml: this layout, or every legal one, against one process on the same samples.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <numeric>

#include "apps/athanor/command.h"
#include "apps/athanor/loaded_tokenizer.h"
#include "apps/command_line/program.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/cpu.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/hash.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/layout/enumerate.h"
#include "athanor/run/init_from.h"
#include "athanor/verify/verify.h"
#include "verify_record.h"
#include "verify_table.h"
#include "work_in_processes.h"

namespace athanor::apps {
namespace {

constexpr double kTolerance = 1e-5, kHalfTolerance = 2e-2, kFlipTolerance = 1e-2;

struct VerifyCommand {
  std::string file, record;
  std::vector<std::string> overrides, switches;
  int64_t steps = 5, sample = 0;
  uint64_t seed = 1;
  int ranks = 0, jobs = 0;
  bool all_layouts = false, json = false, markdown = false;

  void run();

 private:
  // Trains with the layouts of `segments`, one after the other, and judges what comes out beside one process.
  TriedLayout try_layouts(std::vector<VerifySegment> segments, const VerifyRun& one) const;
  TriedLayout try_layout(const Layout& layout, const VerifyRun& one) const;
  TriedLayout try_or_fail(const Layout& layout, const VerifyRun& one) const;
  std::string settings() const;
  Config switched(const std::string& change) const;
  void layouts_in_turn();
  void every_layout() const;

  Config config_;
  Dataset data_;
};

TriedLayout VerifyCommand::try_layouts(std::vector<VerifySegment> segments, const VerifyRun& one) const {
  TriedLayout tried{.layout = {}, .difference = {}};
  tried.must_be_bitwise = true;
  for (const VerifySegment& segment : segments) {
    tried.layout = make_layout(segment.config, {.world_size = segment.ranks, .ranks_of_host = segment.ranks});
    tried.ranks = std::max(tried.ranks, segment.ranks);
    tried.must_be_bitwise = tried.must_be_bitwise && tried.layout.keeps_order();
  }
  tried.difference = compare(run_layouts(std::move(segments), data_.channels), one);
  const LayoutDifference& d = tried.difference;
  const bool near = config_.precision.compute == "f32"
                        ? d.worst() <= kTolerance
                        : std::max(d.loss.value, d.grad_norm.value) <= kHalfTolerance;
  const bool flipped = d.routing_flips > 0 && d.loss.value <= kFlipTolerance;
  tried.holds = tried.must_be_bitwise ? d.bitwise : near || flipped;
  return tried;
}

TriedLayout VerifyCommand::try_layout(const Layout& layout, const VerifyRun& one) const {
  return try_layouts(
      {{.config = in_layout(config_, layout), .ranks = layout.world_size(), .last_step = steps}}, one);
}

// The config of FILE with the settings of one --switch: "tp=2", or "dp=2,zero_stage=1".
Config VerifyCommand::switched(const std::string& change) const {
  std::vector<std::string> all = overrides;
  for (size_t at = 0; at <= change.size();) {
    const size_t end = std::min(change.find(',', at), change.size());
    const std::string one = change.substr(at, end - at), key = one.substr(0, one.find('='));
    const std::string whole = key.find('.') == std::string::npos ? "parallel." + one : one;
    if (!(whole.starts_with("parallel.") || whole.starts_with("parameter_server.")) ||
        whole.starts_with("parallel.reduce="))
      throw ConfigError(
          fmt::format("--switch: got '{}', expected settings of [parallel] but reduce, or of "
                      "[parameter_server]",
                      one));
    all.push_back(whole);
    at = end + 1;
  }
  Config config = load_config(system_env(), file, all, config_sources(system_env()));
  config.model = config_.model;  // of which the tokenizer has set the vocabulary
  validate(config);
  check_comparable(config, false);
  return config;
}

void VerifyCommand::layouts_in_turn() {
  std::vector<VerifySegment> segments{{.config = config_, .ranks = ranks > 0 ? ranks : least_ranks(config_)}};
  for (const std::string& change : switches) {
    segments.push_back({.config = switched(change)});
    segments.back().ranks = least_ranks(segments.back().config);
  }
  std::string text;
  int64_t last_step = 0;
  for (VerifySegment& segment : segments) {
    const Layout layout =
        make_layout(segment.config, {.world_size = segment.ranks, .ranks_of_host = segment.ranks});
    segment.config = in_layout(segment.config, layout);
    segment.last_step = last_step += steps;
    if (!switches.empty() && segment.config.local_sgd.sync_interval > 0)
      throw ConfigError(
          "--switch: got local_sgd.sync_interval > 0, expected 0: replica groups are no layout "
          "of one process");
    text += fmt::format("{}{}, {} rank{}, {} steps", text.empty() ? "" : ", then ", layout.text(),
                        segment.ranks, segment.ranks == 1 ? "" : "s", steps);
  }
  const Config alone = one_process(segments.front().config);
  const VerifyRun one = run_layout(alone, data_.channels, last_step, least_ranks(alone));
  const TriedLayout tried = try_layouts(segments, one);
  if (json) {
    Report report = tried.report();
    if (!switches.empty()) report["layout"] = text;
    std::cout << report.to_json();
  } else {
    std::cout << fmt::format("{} in {}, beside one process\n", text, config_.precision.compute);
    const auto line = [](const char* name, const Largest& largest) {
      std::cout << fmt::format("  {:<10} {:>9.2e}{}\n", name, largest.value,
                               largest.where.empty() ? "" : "  " + largest.where);
    };
    line("loss", tried.difference.loss);
    line("grad_norm", tried.difference.grad_norm);
    line("gradient", tried.difference.gradient);
    line("weight", tried.difference.weight);
    std::cout << tried.verdict() << "\n";
  }
  if (!tried.holds) throw Exit{1};
}

// An error that ends a try becomes part of the result.
TriedLayout VerifyCommand::try_or_fail(const Layout& layout, const VerifyRun& one) const {
  try {
    return try_layout(layout, one);
  } catch (const Error& error) {
    return failed_layout(layout, error.what());
  }
}

// The settings of a record: with equal settings the same build compares the same steps on the same samples.
std::string VerifyCommand::settings() const {
  Hash128 hash;
  Config config = config_;
  config.origins.clear();
  hash.update(system_env().read_text("/proc/self/exe"));
  hash.update(fmt::format("{} {}\n", steps, config_to_json(config)));
  for (const Channel& channel : data_.channels)
    hash.update(fmt::format("{} {}\n", channel.name(), channel.num_tokens()));
  return hash.hex();
}

void VerifyCommand::every_layout() const {
  const int most = ranks > 0 ? ranks : 8;
  const Enumeration walk = enumerate(config_, most);
  LayoutTable table{.most_ranks = most, .legal = std::ssize(walk.legal), .refused = walk.refused};
  std::vector<size_t> chosen(walk.legal.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  if (sample > 0) chosen = spanning_sample(walk.legal, static_cast<size_t>(sample), seed);
  LayoutRecord known = record.empty() ? LayoutRecord() : LayoutRecord(record, settings());

  std::map<size_t, TriedLayout> tried;
  std::vector<size_t> left;
  for (const size_t i : chosen) {
    if (const TriedLayout* before = known.find(walk.legal[i]))
      tried[i] = of_layout(*before, walk.legal[i]);
    else
      left.push_back(i);
  }
  std::ostream& rows = json || markdown ? std::cerr : std::cout;
  if (!record.empty())
    std::cerr << fmt::format("{}: {} of {} layouts are known\n", record, tried.size(), chosen.size());
  rows << table_header() << std::flush;
  const VerifyRun one = left.empty() ? VerifyRun() : run_layout(one_process(config_), data_.channels, steps);
  ProgressLine progress;
  work_in_processes(
      left, jobs > 0 ? jobs : num_usable_cpus(),
      [&](size_t i) { return line_of(try_or_fail(walk.legal[i], one)); },
      [&](size_t i, const WorkEnd& end) {
        const Layout& layout = walk.legal[i];
        tried[i] = end.died.empty() ? of_layout(tried_of(end.text, "a trial"), layout)
                                    : failed_layout(layout, "its process ended: " + end.died);
        if (end.died.empty()) known.add(tried[i]);  // one that was killed is tried again
        progress.clear();
        rows << row_of(tried[i]) << std::flush;
        const auto done = static_cast<double>(tried.size() - (chosen.size() - left.size()));
        progress.update("layouts", done, static_cast<double>(left.size()),
                        fmt::format("{} of {}", tried.size(), chosen.size()));
      });
  progress.clear();
  for (auto& [i, each] : tried) table.tried.push_back(std::move(each));
  if (json)
    std::cout << table.report().to_json();
  else
    std::cout << (markdown ? table.markdown() + "\n" : "\n") << table.counts();
  if (table.failed() > 0) throw Exit{1};
}

void VerifyCommand::run() {
  config_ = load_config(system_env(), file, overrides, config_sources(system_env()));
  validate_data(config_);
  const auto tokenizer = open_tokenizer(config_, system_env());
  say_warnings(tokenizer.get());
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  validate(config_);
  check_comparable(config_, all_layouts);
  ProgressLine line;
  data_ = open_dataset(config_, system_env(),
                       {.threads = 1,
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = show_tokenizing(line)});
  if (all_layouts)
    every_layout();
  else
    layouts_in_turn();
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("verify", "Check that a parallel layout computes the same as one process");
  auto command = std::make_shared<VerifyCommand>();
  sub->add_option("FILE.toml", command->file, "The run's settings")->required();
  sub->add_option("--set", command->overrides, "Override a setting, e.g. parallel.tp=2")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  auto* turns =
      sub->add_option("--switch", command->switches,
                      "After the steps of the layout before: go on with FILE's settings but these of "
                      "[parallel], e.g. tp=2 or dp=2,zero_stage=1; repeatable")
          ->type_name("KEY=VALUE,...")
          ->allow_extra_args(false);
  sub->add_option("--steps", command->steps, "Steps to compare, of each layout")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  sub->add_option(
         "-n,--ranks", command->ranks,
         "Ranks of the layout (default: what [parallel] says); maximum with --all-layouts (default: 8)")
      ->check(CLI::Range(1, 64));
  sub->add_flag("--all-layouts", command->all_layouts,
                "Walk every legal layout of pp, dp, tp, cp, ep, sp, zero, schedule and recompute: a table")
      ->excludes(turns);
  sub->add_option(
         "--sample", command->sample,
         "With --all-layouts: test N layouts covering every pair of axis values (may exceed N; default: all)")
      ->check(CLI::Range(1, 1 << 20));
  sub->add_option("--seed", command->seed, "Of the sample")->capture_default_str();
  sub->add_option(
         "--record", command->record,
         "With --all-layouts: a file of what was tried, kept as it comes; a walk that was cut off goes on "
         "from it")
      ->type_name("FILE.jsonl");
  sub->add_option(
         "--jobs", command->jobs,
         "With --all-layouts: single-core worker processes (default: as many as there are processors)")
      ->check(CLI::Range(1, 1024));
  auto* summary =
      sub->add_flag("--markdown", command->markdown,
                    "With --all-layouts: a table by the values of each axis, the rows to standard error");
  sub->add_flag("--json", command->json, "Print one JSON document")->excludes(summary);
  sub->footer(
      "Ranks are threads of this process, of one compute thread each; nothing is written but --record. "
      "Layouts that keep "
      "the\n"
      "order of sums must be bitwise equal, others within 1e-5 in f32 (2e-2 of losses and norms in bf16 and "
      "f16).\n"
      "Where a token chose other experts than in one process only losses are compared, within 1e-2.\n"
      "Exit codes: 0 they are, 1 some layout is not or something failed, 2 wrong command line or config.\n"
      "\n"
      "Examples:\n"
      "  athanor verify run.toml --set parallel.tp=2 --set parallel.sp=true -n 4\n"
      "  athanor verify run.toml --switch tp=2 --switch dp=2,zero_stage=1\n"
      "  athanor verify run.toml --all-layouts -n 8 --set parallel.reduce=tree --set precision.compute=f32\n"
      "  athanor verify run.toml --all-layouts -n 8 --steps 10 --sample 200 --markdown >layouts.md\n"
      "  athanor verify run.toml --all-layouts -n 8 --steps 10 --record walk.jsonl --markdown >layouts.md");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
