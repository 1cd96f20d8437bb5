// athanor chaos FILE.toml: faults on purpose, each with a negative control.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "apps/command_line/own_program.h"
#include "apps/command_line/print.h"
#include "apps/command_line/program.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/human.h"
#include "athanor/chaos/campaign.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/soak.h"
#include "athanor/config/load.h"
#include "athanor/run/init_from.h"
#include "command.h"

extern char** environ;

namespace athanor::apps {
namespace {

// A folder beside that of the runs.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& runs) {
    const std::string parent = parent_folder(std::filesystem::path(runs).lexically_normal().string());
    path_ = std::filesystem::absolute(join_path(parent, "chaos_XXXXXX")).lexically_normal().string();
    if (mkdtemp(path_.data()) == nullptr) throw_io_error("make the folder", path_, errno);
  }
  ~WorkFolder() {
    std::error_code error;
    if (!keep) std::filesystem::remove_all(path_, error);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }
  bool keep = false;

 private:
  std::string path_;
};

// Lines for people.
void say(const std::string& text) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::fprintf(stderr, "%s\n", printable(text.substr(at, end - at)).c_str());
    at = end + 1;
  }
}

struct ChaosCommand {
  std::string file, output;
  std::vector<std::string> settings, faults;
  uint64_t seed = 1;
  int64_t trials = 10;
  int ranks = 2;
  int64_t soak = 0;  // 0: trials
  bool json = false, keep = false;

  void run() const;
};

void ChaosCommand::run() const {
  const Config config = load_config(system_env(), file, settings, config_sources(system_env()));
  if (config.launch.max_restarts == 0)
    throw ConfigError(
        "chaos: got launch.max_restarts = 0, expected at least 1: that is the negative control");
  if (soak > 0 && config.launch.max_restarts < kLeastRestarts)
    throw ConfigError(
        fmt::format("chaos: --soak: got launch.max_restarts = {}, expected at least {}: the launcher's "
                    "restarts are whole again after 100 steps, in which the job is struck up to 20 times",
                    config.launch.max_restarts, kLeastRestarts));
  if (const int64_t least = soak * kStepsAFault + kSpareSteps; soak > 0 && config.train.steps < least)
    throw ConfigError(
        fmt::format("chaos: --soak {}: got train.steps = {}, expected at least {}: {} a fault and {}", soak,
                    config.train.steps, least, kStepsAFault, kSpareSteps));
  CampaignOptions options{.seed = seed, .trials = trials, .faults = find_faults(faults, ranks), .keep = keep};
  WorkFolder folder(config.train.runs);
  folder.keep = keep;
  options.job = {.program = own_program(),
                 .num_ranks = ranks,
                 .config = file,
                 .settings = settings,
                 .runs = folder.path()};
  for (char** entry = environ; *entry != nullptr; ++entry) options.job.environment.emplace_back(*entry);
  const auto lines = output.empty() ? nullptr : system_env().append_to(output);
  Json document = {{"header", nullptr}, {"trials", Json::array()}, {"summary", nullptr}, {"passed", false}};
  const auto tell = [&](const Json& line, const std::string& sentence) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (lines != nullptr) {
      lines->append(text);
      lines->flush();
    } else if (!json) {
      print(text);
    }
    if (line.contains("trial")) {
      document["trials"].push_back(line);
    } else if (line.contains("summary")) {
      document["summary"] = soak > 0 ? line : line["summary"];
      document["passed"] = line["passed"];
    } else {
      document["header"] = line;
    }
    say(sentence);
  };
  if (soak > 0) {
    const SoakResult result = run_soak(options, soak, tell);
    if (json) print_json(document);
    if (result.passed()) return;
    folder.keep = true;
    std::fprintf(stderr, "athanor: what is left of it: %s\n", printable(result.kept).c_str());
    throw Exit{1};
  }
  const CampaignResult result = run_campaign(options, tell);
  if (json) print_json(document);
  if (result.passed()) return;
  folder.keep = true;
  for (const std::string& kept : result.kept)
    std::fprintf(stderr, "athanor: what is left of it: %s\n", printable(kept).c_str());
  throw Exit{1};
}

std::string table_of_faults() {
  std::string text;
  for (const chaos::Fault* fault : all_faults()) {
    const FaultText words = fault->text();
    text += fmt::format("  {:<13} {}.\n{:16}Must hold: {}.\n{:16}Negative control: {}.\n", words.name,
                        words.what, "", words.must, "", words.control);
  }
  return text;
}

}  // namespace

void add_chaos(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("chaos", "Strike a job with faults on purpose, and check that nothing is lost");
  auto command = std::make_shared<ChaosCommand>();
  sub->add_option("FILE.toml", command->file, "The run's settings")->required();
  sub->add_option("--set", command->settings, "Override a setting, e.g. parallel.tp=2")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_option("-n,--ranks", command->ranks, "How many ranks the job has")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  sub->add_option("--seed", command->seed, "Of the draws: kind of fault, ranks and instant of each trial")
      ->capture_default_str();
  auto* trials =
      sub->add_option("--trials", command->trials, "How many, beside a negative control of each kind")
          ->capture_default_str()
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  sub->add_option("--soak", command->soak,
                  "Instead of trials: so many faults in one run, one every five or six steps")
      ->type_name("N")
      ->excludes(trials)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  sub->add_option("--faults", command->faults,
                  "Kinds of faults (default: all that the number of ranks allows)")
      ->type_name("KIND,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option(
         "--output,-o", command->output,
         "Add the lines to this file: a header, a line a trial, a summary (default: standard output)")
      ->type_name("FILE.jsonl");
  sub->add_flag("--keep", command->keep, "Keep the folders of all runs");
  sub->add_flag("--json", command->json, "Print one JSON document: header, trials, summary");
  sub->footer(
      "The job is `athanor launch -n N -- train FILE.toml`, each time as a fresh run in a folder of its own "
      "beside that of\n"
      "the runs. The first one is undisturbed. Then each trial draws a kind of fault, ranks and an instant "
      "between the\n"
      "first and the last step, strikes from outside, and waits for the end of the job. What must hold of "
      "every kind: the\n"
      "metrics of each step, the checkpoint and the ledger have the bits of the undisturbed run, each step "
      "stands once, no\n"
      "committed step is lost, and no process, shared memory or socket is left behind. A negative control of "
      "each kind, with\n"
      "the protection off, has to fail.\n"
      "\n"
      "Kinds of faults:\n" +
      table_of_faults() +
      "\n"
      "Folders of trials that failed are kept. Exit codes: 0 all passed, 1 a trial failed or a negative "
      "control passed, 2\n"
      "wrong command line or config.\n"
      "\n"
      "Examples:\n"
      "  athanor chaos run.toml --seed 1 --trials 20\n"
      "  athanor chaos run.toml -n 3 --soak 50 --set launch.max_restarts=40 --set train.steps=400\n"
      "  athanor chaos run.toml -n 3 --seed 2 --trials 100 --faults kill,kill-all --set "
      "parallel.zero_stage=1 -o faults.jsonl");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
