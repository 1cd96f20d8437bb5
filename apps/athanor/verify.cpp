// athanor verify FILE.toml: this layout, or every legal one, against one process on the same samples.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <numeric>

#include "athanor/base/error.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/observe/report.h"
#include "athanor/pipeline/schedule.h"
#include "athanor/train/layout.h"
#include "athanor/train/verify.h"
#include "command.h"
#include "progress.h"
#include "terminal.h"

namespace athanor {
namespace {

constexpr double kTolerance = 1e-5, kHalfTolerance = 2e-2;

struct Tried {
  std::string layout;
  int ranks = 1;
  LayoutDifference difference;
  bool must_be_bitwise = false, holds = false;
};

struct VerifyCommand {
  std::string file;
  std::vector<std::string> overrides;
  int64_t steps = 5;
  int ranks = 0;
  bool all_layouts = false, json = false;

  void run();

 private:
  Tried try_layout(const Config& config, const VerifyRun& one, int num_ranks) const;
  std::vector<Config> layouts(int most) const;
  void one_layout() const;
  void every_layout() const;

  Config config_;
  Dataset data_;
};

std::string text_of(const Config& config, int ranks) {
  const ParallelConfig& p = config.parallel;
  return fmt::format("{}dp {} tp {}{}{}{} zero {} reduce {} recompute {}",
                     p.pp > 1 ? fmt::format("pp {} {} ", p.pp, p.schedule) : "", mesh_shape(config, ranks).dp,
                     p.tp, p.sp ? " sp" : "", p.cp > 1 ? fmt::format(" cp {} {}", p.cp, p.cp_kind) : "",
                     p.ep > 1 ? fmt::format(" ep {}", p.ep) : "", p.zero, p.reduce, p.recompute);
}

// Sums in another order than one process makes them differ by rounding (design of `reduce`, tensor and context
// parallelism).
bool keeps_order(const Config& config, int ranks) {
  const ParallelConfig& p = config.parallel;
  return p.tp == 1 && p.cp == 1 && p.ep == 1 && (mesh_shape(config, ranks).dp == 1 || p.reduce == "tree");
}

Tried VerifyCommand::try_layout(const Config& config, const VerifyRun& one, int num_ranks) const {
  Tried tried{.layout = text_of(config, num_ranks), .ranks = num_ranks, .difference = {}};
  tried.difference = compare(run_layout(config, data_.channels, steps, num_ranks), one);
  tried.must_be_bitwise = keeps_order(config, num_ranks);
  const LayoutDifference& d = tried.difference;
  const bool near = config.precision.compute == "f32"
                        ? d.worst() <= kTolerance
                        : std::max(d.loss.value, d.grad_norm.value) <= kHalfTolerance;
  tried.holds = tried.must_be_bitwise ? d.bitwise : near;
  return tried;
}

std::string verdict_of(const Tried& tried) {
  if (tried.difference.bitwise) return "bitwise equal";
  if (tried.must_be_bitwise) return "NOT BITWISE EQUAL";
  return tried.holds ? "equal within the tolerance" : "DIFFERS";
}

Report report_of(const Tried& tried) {
  Report report;
  report["layout"] = tried.layout;
  report["ranks"] = int64_t{tried.ranks};
  const auto put = [&](const char* name, const Largest& largest) {
    report[name]["difference"] = largest.value;
    report[name]["where"] = largest.where;
  };
  put("loss", tried.difference.loss);
  put("grad_norm", tried.difference.grad_norm);
  put("gradient", tried.difference.gradient);
  put("weight", tried.difference.weight);
  report["bitwise"] = tried.difference.bitwise;
  report["must_be_bitwise"] = tried.must_be_bitwise;
  report["holds"] = tried.holds;
  return report;
}

void VerifyCommand::one_layout() const {
  const ParallelConfig& p = config_.parallel;
  const int num_ranks = ranks > 0 ? ranks : static_cast<int>(p.pp * p.cp * p.tp * std::max<int64_t>(1, p.dp));
  check_ranks(config_, num_ranks);
  const VerifyRun one = run_layout(one_process(config_), data_.channels, steps);
  const Tried tried = try_layout(config_, one, num_ranks);
  if (json) {
    std::cout << report_of(tried).to_json();
  } else {
    std::cout << fmt::format("{}, {} rank{}, {} steps in {}, beside one process\n", tried.layout, num_ranks,
                             num_ranks == 1 ? "" : "s", steps, config_.precision.compute);
    const auto line = [](const char* name, const Largest& largest) {
      std::cout << fmt::format("  {:<10} {:>9.2e}{}\n", name, largest.value,
                               largest.where.empty() ? "" : "  " + largest.where);
    };
    line("loss", tried.difference.loss);
    line("grad_norm", tried.difference.grad_norm);
    line("gradient", tried.difference.gradient);
    line("weight", tried.difference.weight);
    std::cout << verdict_of(tried) << "\n";
  }
  if (!tried.holds) throw Exit{1};
}

// Every combination of sizes whose product is at most that many ranks, legal or not. Schedules only matter in a pipeline,
// forms of attention only under cp, ep only where there are experts.
std::vector<Config> VerifyCommand::layouts(int most) const {
  std::vector<Config> all;
  const auto sizes = [](int64_t limit) {
    std::vector<int64_t> list(static_cast<size_t>(limit));
    std::iota(list.begin(), list.end(), 1);
    return list;
  };
  Config config = config_;
  ParallelConfig& p = config.parallel;
  const auto with_rest = [&] {
    for (const bool sp : {false, true})
      for (int zero = 0; zero <= 3; ++zero)
        for (const char* recompute : {"none", "selective", "full"}) {
          p.sp = sp;
          p.zero = zero;
          p.recompute = recompute;
          all.push_back(config);
        }
  };
  const auto with_names = [&] {
    const bool piped = p.pp > 1, shared = p.cp > 1;
    for (const std::string& schedule : piped ? schedule_names() : std::vector{config_.parallel.schedule})
      for (const std::string& kind :
           shared ? std::vector<std::string>{"ring", "ulysses"} : std::vector{config_.parallel.cp_kind}) {
        p.schedule = schedule;
        p.cp_kind = kind;
        with_rest();
      }
  };
  for (const int64_t pp : sizes(most))
    for (const int64_t tp : sizes(most / pp))
      for (const int64_t cp : sizes(most / pp / tp))
        for (const int64_t dp : sizes(most / pp / tp / cp))
          for (const int64_t ep : sizes(config_.model.experts > 0 ? dp * cp * tp : 1)) {
            p.pp = pp;
            p.tp = tp;
            p.cp = cp;
            p.dp = dp;
            p.ep = ep;
            with_names();
          }
  return all;
}

void VerifyCommand::every_layout() const {
  const int most = ranks > 0 ? ranks : 8;
  const VerifyRun one = run_layout(one_process(config_), data_.channels, steps);
  std::vector<Tried> all;
  std::map<std::string, int> refused;  // by what the config check names
  Report report;
  if (!json)
    std::cout << fmt::format(
        "| layout | ranks | loss | grad_norm | gradient | weight | |\n|---|---|---|---|---|---|---|\n");
  for (const Config& config : layouts(most)) {
    const auto num_ranks =
        static_cast<int>(config.parallel.pp * config.parallel.dp * config.parallel.cp * config.parallel.tp);
    try {
      validate(config);
      check_ranks(config, num_ranks);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      ++refused[what.substr(0, what.find(": got"))];
      continue;
    }
    all.push_back(try_layout(config, one, num_ranks));
    const Tried& tried = all.back();
    const LayoutDifference& d = tried.difference;
    if (json)
      report["layouts"].push_back(report_of(tried));
    else
      std::cout << fmt::format("| {} | {} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {} |\n", tried.layout,
                               tried.ranks, d.loss.value, d.grad_norm.value, d.gradient.value, d.weight.value,
                               verdict_of(tried))
                << std::flush;
  }
  int64_t bitwise = 0, failed = 0;
  for (const Tried& tried : all) {
    bitwise += tried.difference.bitwise ? 1 : 0;
    failed += tried.holds ? 0 : 1;
  }
  if (json) {
    report["legal"] = static_cast<int64_t>(all.size());
    report["bitwise"] = bitwise;
    report["failed"] = failed;
    for (const auto& [key, count] : refused) report["refused"][key] = int64_t{count};
    std::cout << report.to_json();
  } else {
    std::cout << fmt::format(
        "\n{} legal layouts of up to {} ranks: {} bitwise equal, {} within the tolerance, {} failed\n",
        all.size(), most, bitwise, static_cast<int64_t>(all.size()) - bitwise - failed, failed);
    for (const auto& [key, count] : refused) std::cout << fmt::format("refused for {}: {}\n", key, count);
  }
  if (failed > 0) throw Exit{1};
}

void VerifyCommand::run() {
  config_ = load_config(system_env(), file, overrides);
  validate_data(config_);
  const auto tokenizer = open_tokenizer(config_, system_env());
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  validate(config_);
  const ParallelConfig& p = config_.parallel;
  if (p.compression != "none" || p.sync_every > 0)
    throw ConfigError(p.sync_every > 0 ? fmt::format("parallel.sync_every: got {}, expected 0", p.sync_every)
                                       : "parallel.compression: got " + p.compression + ", expected none",
                      "it changes what is computed: docs/compression.md says what it is held against");
  ProgressLine line;
  data_ = open_dataset(config_, system_env(),
                       {.threads = 1,
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = show_tokenizing(line)});
  if (all_layouts)
    every_layout();
  else
    one_layout();
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("verify", "Hold a layout, or all of them, against one process");
  auto command = std::make_shared<VerifyCommand>();
  sub->add_option("FILE.toml", command->file, "The run's settings")->required();
  sub->add_option("--set", command->overrides, "Override a setting, e.g. parallel.tp=2")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_option("--steps", command->steps, "Steps to compare")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  sub->add_option(
         "-n,--ranks", command->ranks,
         "Ranks of the layout (default: what [parallel] says); the most with --all-layouts (default: 8)")
      ->check(CLI::Range(1, 64));
  sub->add_flag("--all-layouts", command->all_layouts,
                "Walk every legal layout of pp, dp, tp, cp, ep, sp, zero, schedule and recompute: a table");
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Ranks are threads of this process, of one compute thread each; nothing is written. Layouts that keep "
      "the\n"
      "order of sums must be bitwise equal, others within 1e-5 in f32 (2e-2 of losses and norms in bf16 and "
      "f16).\n"
      "Exit codes: 0 they are, 1 some layout is not or something failed, 2 wrong command line or config.\n"
      "\n"
      "Examples:\n"
      "  athanor verify run.toml --set parallel.tp=2 --set parallel.sp=true -n 4\n"
      "  athanor verify run.toml --all-layouts -n 8 --set parallel.reduce=tree --set precision.compute=f32");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor
