// athanor launch -n N -- train FILE.toml: the ranks of this host, each an athanor of its own.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line/console_stream.h"
#include "apps/command_line/own_program.h"
#include "apps/command_line/print.h"
#include "apps/command_line/program.h"
#include "athanor/base/error.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/launch/agent.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/environment/variables.h"
#include "athanor/launch/keeper/agent_process.h"
#include "athanor/launch/master/master_process.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/layout/elastic.h"
#include "athanor/observe/report.h"
#include "athanor/run/decisions/set_settings.h"
#include "athanor/run/init_from.h"
#include "athanor/run/run_folder.h"
#include "command.h"
#include "run_page.h"

namespace athanor::apps {
namespace {

constexpr int kMaxRanks = 1024;

constexpr const char* kNodesHint =
    "on each node: athanor launch -n 2 --nodes 2 --node 0|1 --master ADDRESS[:PORT] -- train run.toml";

struct LaunchCommand {
  std::optional<int> given_ranks;
  int num_ranks = 0, num_nodes = 1, node = -1;
  std::string nodes, master;
  bool json = false;
  std::vector<std::string> command, unknown;

  void run() const;
  void find_nodes();
  void ask_environment();
  void set_nodes(LaunchOptions& options) const;
  void set_run(LaunchOptions& options) const;
};

const char* variable(const char* name) {
  return std::getenv(name);
}

int environment_number(const char* name, int otherwise) {
  return Variables(variable).number(name, 0, 1 << 20).value_or(otherwise);
}

// Fills in what the command line leaves open from the environment that an outer launcher has set.
void LaunchCommand::ask_environment() {
  if (!nodes.empty() && node >= 0 && !master.empty()) return;
  const auto found = parse_node_environment(variable);
  if (found && !given_ranks) num_ranks = found->ranks;
  if (!found || found->num_nodes == 1) {
    if (!nodes.empty() && node < 0) node = environment_number("JOB_COMPLETION_INDEX", -1);
    return;
  }
  if (nodes.empty()) nodes = std::to_string(found->num_nodes);
  if (std::atoi(nodes.c_str()) != found->num_nodes) {
    if (nodes == "1") return;
    throw ConfigError(fmt::format("launch: --nodes {}, but it is {}", nodes, found->believed),
                      "leave out --nodes, or give --node and --master too");
  }
  if (node < 0) node = found->node;
  if (master.empty() && !found->master_address.empty())
    master = fmt::format("{}:{}", found->master_address, found->master_port);
  std::fprintf(stderr, "athanor: %s\n", found->believed.c_str());
}

// From the command line, otherwise from the environment that an outer launcher has set.
void LaunchCommand::find_nodes() {
  num_ranks = given_ranks.value_or(0);
  if (node < 0) node = environment_number("NODE_RANK", -1);
  ask_environment();
  if (nodes.empty()) return;
  const size_t colon = nodes.find(':');
  num_nodes = std::atoi(nodes.c_str());
  if (num_nodes < 1 || (colon != std::string::npos && std::atoi(nodes.c_str() + colon + 1) != num_nodes))
    throw ConfigError(
        fmt::format("launch: --nodes {}, expected a number of nodes, or twice the same: 2:2", nodes),
        kNodesHint);
  if (num_nodes == 1) return;
  if (node < 0 || node >= num_nodes)
    throw ConfigError(
        fmt::format("launch: --node {} of {}, expected 0 to {}", node, num_nodes, num_nodes - 1), kNodesHint);
  if (master.empty()) {
    const char* address = std::getenv("MASTER_ADDR");
    if (address == nullptr)
      throw ConfigError("launch: several nodes, but no --master and no MASTER_ADDR", kNodesHint);
    master = fmt::format("{}:{}", address, environment_number("MASTER_PORT", 29500));
  }
}

void LaunchCommand::set_nodes(LaunchOptions& options) const {
  if (num_nodes == 1) return;
  options.first_rank = node * num_ranks;
  options.world_size = num_nodes * num_ranks;
  const size_t colon =
      master.find(':') == master.rfind(':') ? master.find(':') : std::string::npos;  // not of IPv6
  std::erase_if(options.environment, [](const std::string& entry) {
    return entry.starts_with("MASTER_ADDR=") || entry.starts_with("MASTER_PORT=");
  });
  options.environment.push_back("MASTER_ADDR=" + master.substr(0, colon));
  if (colon != std::string::npos) options.environment.push_back("MASTER_PORT=" + master.substr(colon + 1));
}

// The FILE and the --set of a `train` command.
struct TrainArguments {
  explicit TrainArguments(const std::vector<std::string>& command) {
    for (size_t i = 1; i < command.size(); ++i) {
      const std::string& word = command[i];
      const bool has_value =
          word == "--set" || word == "--from" || word == "--phase" || word == "--decisions";
      if (has_value && i + 1 < command.size()) {
        if (word == "--set") sets.push_back(command[i + 1]);
        ++i;
      } else if (word.starts_with("--set=")) {
        sets.push_back(word.substr(6));
      } else if (!word.starts_with("-")) {
        file = word;
      }
    }
  }
  std::string file;
  std::vector<std::string> sets;
};

// Why no layout of the config goes with so many ranks of one host, at the start or (`elastic`) later; "": one does.
std::string refuse_size(const Config& config, int num_ranks, bool elastic) {
  const Ranks ranks{.world_size = num_ranks, .ranks_of_host = num_ranks};
  try {
    for (const PhaseConfig& phase : phases_of(config))
      elastic ? elastic_layout(phase.config, ranks) : make_layout(phase.config, ranks);
  } catch (const Failure& error) {
    return elastic && !error.hint().empty() ? fmt::format("{} ({})", error.what(), error.hint())
                                            : error.what();
  }
  return "";
}

// The run's folder, and what the config says of failures. If it cannot be read, the ranks say what is wrong with it, and
// nothing is started again.
void LaunchCommand::set_run(LaunchOptions& options) const {
  const TrainArguments arguments(command);
  Config whole;
  try {
    whole = load_config(system_env(), arguments.file, arguments.sets, config_sources(system_env()));
  } catch (const Failure&) {
    return;
  }
  options.run_folder = RunFolder(whole).path;
  // What the launcher cannot judge, the ranks do.
  if (num_nodes == 1 && refuse_size(whole, num_ranks, /*elastic=*/false).empty())
    options.refuse_size = [whole](int ranks) { return refuse_size(whole, ranks, /*elastic=*/true); };
  options.refuse_setting = [whole](const std::string& setting) { return why_not_set(whole, setting); };
  const LaunchConfig& config = whole.launch;
  if (num_nodes == 1 &&
      (num_ranks < config.min_ranks || (config.max_ranks > 0 && num_ranks > config.max_ranks)))
    throw ConfigError(fmt::format("launch: -n {}, expected launch.min_ranks = {} to launch.max_ranks = {}",
                                  num_ranks, config.min_ranks,
                                  config.max_ranks == 0 ? num_ranks : config.max_ranks));
  options.max_restarts = static_cast<int>(config.max_restarts);
  options.min_ranks = static_cast<int>(config.min_ranks);
  options.max_ranks = static_cast<int>(config.max_ranks);
  options.timeout_ms = config.timeout_ms;
  if (config.hang != "warn") options.hang = config.hang == "act" ? HangAction::act : HangAction::off;
  options.tells_slow = config.slow == "warn";
  if (config.warm_up == "off") options.warm_up_ms = 0;
}

void LaunchCommand::run() const {
  if (!unknown.empty())
    throw ConfigError(
        fmt::format("launch: unknown option {}", unknown[0]),
        "train and its options go behind '--': athanor launch -n 2 -- train run.toml --set ...");
  if (!given_ranks && num_ranks == 0)
    throw ConfigError("launch: -n (--ranks), the number of ranks, is missing",
                      "athanor launch -n 2 -- train run.toml");
  if (num_ranks < 1 || num_ranks > kMaxRanks)
    throw ConfigError(fmt::format("launch: -n {}, expected 1 to {} ranks", num_ranks, kMaxRanks));
  if (command[0] != "train")
    throw ConfigError(fmt::format("launch: got the command '{}', expected 'train'", command[0]),
                      "athanor launch -n 2 -- train run.toml");
  std::signal(SIGPIPE, SIG_IGN);  // who reads what is shown may go; the run goes on
  LaunchOptions options;
  options.num_ranks = num_ranks;
  options.command = command;
  options.command.insert(options.command.begin(), own_program());
  const bool has_json = std::find(command.begin(), command.end(), "--json") != command.end();
  if (json && !has_json) options.command.push_back("--json");
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  set_nodes(options);
  set_run(options);
  if (const char* folder = std::getenv("XDG_RUNTIME_DIR")) options.runtime_folder = folder;
  options.master_command = {own_program(), "launch-master"};
  options.agent_command = {own_program(), "launch-agent"};
  options.terminal = isatty(STDERR_FILENO) == 1;
  ConsoleStream errors(STDERR_FILENO);
  options.write = [&errors](std::string_view bytes) { errors.write(bytes); };
  const LaunchResult result = run_agent(options);
  // A rank has said what is wrong with the config; rank 0 has said where the run was interrupted.
  const bool is_good = result.exit_code == 0 || result.exit_code == kInterruptedExitCode;
  if (!result.run_folder.empty())
    leave_run_page(system_env(), result.run_folder, [&](const std::string& text) {
      errors.write(fmt::format("athanor: warning: {}\n", text));
    });
  if ((json || has_json) && is_good && !result.run_folder.empty())
    print(system_env().read_text(join_path(result.run_folder, observe::kReportName)));
  if (result.exit_code == 2 || result.exit_code == kInterruptedExitCode) throw Exit{result.exit_code};
  if (result.exit_code != 0) throw Recoverable(text_of(result), result.hint);
}

void serve_launcher(int fd) {
  std::signal(SIGPIPE, SIG_IGN);
  AgentProcessOptions options;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  ConsoleStream errors(STDERR_FILENO);
  options.write = [&errors](std::string_view bytes) { errors.write(bytes); };
  serve_agent(PacketChannel(Descriptor(fd)), options);
}

}  // namespace

void add_launch(CLI::App& app) {
  CLI::App* master = app.add_subcommand("launch-master")->group("");  // of `launch`, for itself
  auto served = std::make_shared<int>(-1);
  master->add_option("FD", *served)->required();
  master->callback([served] { serve_master(PacketChannel(Descriptor(*served))); });
  CLI::App* agent = app.add_subcommand("launch-agent")->group("");  // likewise
  auto kept = std::make_shared<int>(-1);
  agent->add_option("FD", *kept)->required();
  agent->callback([kept] { serve_launcher(*kept); });
  CLI::App* sub = app.add_subcommand("launch", "Train with several ranks on this machine, or on several");
  auto launch = std::make_shared<LaunchCommand>();
  sub->add_option("-n,--ranks", launch->given_ranks,
                  "How many ranks of this node, each a process (or PET_NPROC_PER_NODE)")
      ->type_name("N");
  sub->add_option("--nodes,--nnodes", launch->nodes,
                  "How many nodes, each with as many ranks and a launcher of its own")
      ->type_name("H");
  sub->add_option("--node,--node-rank", launch->node, "Which of them this is: 0 ... H-1 (or NODE_RANK)")
      ->type_name("I");
  sub->add_option("--master", launch->master,
                  "Address of node 0 (rendezvous; or MASTER_ADDR, MASTER_PORT); port 29500")
      ->type_name("ADDRESS[:PORT]");
  sub->add_flag("--json", launch->json, "Print the run's report.json at the end");
  sub->add_option("command", launch->command, "The command that every rank runs, with its options")
      ->required()
      ->type_name("-- train FILE.toml");
  sub->footer(
      "Examples:\n"
      "  athanor launch -n 2 -- train run.toml\n"
      "  athanor launch -n 4 -- train run.toml --set train.steps=100 --set parallel.reduce=tree\n"
      "  athanor launch -n 2 --nodes 2 --node 1 --master 10.0.0.1:29500 -- train run.toml\n"
      "\n"
      "Under srun, mpirun, PyTorchJob, Volcano or Kubeflow with one process a node the nodes come from the\n"
      "environment; the variables that were believed are named.\n"
      "\n"
      "Rank 0 has this terminal; what other ranks write to standard error is marked with their rank.\n"
      "Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU are passed on to every rank once: they save a\n"
      "checkpoint and end; a second one kills them. What is ignored at the start (nohup) stays ignored.\n"
      "If a rank dies on one node, it is started again and the others go on with it where they were, by\n"
      "[launch] of FILE (max_restarts, min_ranks). A wrong config, a wrong value in training, or any failure "
      "with\n"
      "several nodes ends the job, and its error names the rank and why.\n"
      "Exit codes: 0 if every rank's is 0, 1 if a rank failed, 2 wrong command line or config, 75 "
      "interrupted\n"
      "after saving: start it again.");
  sub->allow_extras();
  sub->callback([launch, sub] {
    for (const auto& word : sub->remaining())
      if (word != "--") launch->unknown.push_back(word);
    launch->find_nodes();
    launch->run();
  });
}

}  // namespace athanor::apps
