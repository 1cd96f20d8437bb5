// athanor train FILE.toml: a training run in this process, or as one rank of a launch.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "apps/command_line/console_stream.h"
#include "apps/command_line/own_program.h"
#include "apps/command_line/program.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/cpu_limits.h"
#include "athanor/base/file.h"
#include "athanor/base/topology.h"
#include "athanor/chaos/faulty_world.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/launch/stop_watcher.h"
#include "athanor/run/init_from.h"
#include "athanor/run/processor_share.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_history.h"
#include "athanor/run/trainer.h"
#include "command.h"
#include "open_world.h"
#include "run_page.h"
#include "worker.h"

namespace athanor::apps {
namespace {

// The answer to a signal, printed at once on a line of its own; the progress bar and the terminal's ^C are cleared.
std::string answer_to(int signal, bool terminal) {
  const std::string text =
      signal == SIGINT ? "interrupt: saving after this step; press Ctrl-C again to end at once"
                       : signal_name(signal) + ": saving after this step; a second signal ends at once";
  return (terminal ? "\r\033[K" : "") + text + "\n";
}

struct TrainCommand {
  std::string file, from, phase, decisions;
  std::vector<std::string> overrides;
  bool print_config = false, profile = false, json = false;

  void run() const;
};

// Failing to print the JSON document is an error, unless its reader has gone away.
void print_report(const TrainReport& report) {
  ConsoleStream out(STDOUT_FILENO);
  out.write(report.to_json());
  if (out.error() != 0 && !out.is_lost())
    throw IoError("standard output: what was printed could not be written", out.error());
}

Config load(const TrainCommand& command) {
  Config config = load_config(system_env(), command.file, command.overrides, config_sources(system_env()));
  if (!config.data.tokenizer.empty()) {
    const auto tokenizer = open_tokenizer(config, system_env());
    resolve_model(config, tokenizer->vocab_size());
  }
  return config;
}

// Whether report.json says that this process has failed, not one before it.
bool has_failed_here(const std::string& folder) {
  const auto status = run_status(system_env(), folder);
  return status && status->status == "failed" && status->pid == getpid();
}

TrainReport train_in(World& world, const Config& config, const TrainIo& io) {
  try {
    return run::train(config, world, io);
  } catch (const std::exception& error) {
    world.abort(error.what());  // so that nobody waits for this rank
    throw;
  }
}

void TrainCommand::run() const {
  if (print_config) {
    const Config config = load(*this);
    const std::string text =
        json ? config_to_json(config) + "\n"
             : athanor::print_config(config, is_terminal(stdout) ? console_columns(stdout) : 0);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const RankEnvironment ranks =
      parse_rank_environment([](const char* name) -> const char* { return std::getenv(name); });
  const Config config = load_config(system_env(), file, overrides, config_sources(system_env()));
  validate_data(config);
  TrainIo io{.env = system_env()};
  const std::vector<Core> cores = usable_cores();
  const auto place = [&](const ProcessorShare& share) {
    io.ranks_of_processors = share.ranks;
    if (!config.train.pin_threads) return;
    io.place = [cores, share](int threads) {
      return place_rank(cores, {.ranks = share.ranks,
                                .rank = share.rank,
                                .threads = threads,
                                .cpu_quota = read_cpu_limits().quota});
    };
    io.placement = io.place(threads_of_rank(config, share.ranks));
  };
  // For the threads that communication needs. Threads that compute are placed later, when the ranks know their hosts.
  place({.ranks = ranks.local_world_size, .rank = ranks.local_rank});
  std::signal(SIGPIPE, SIG_IGN);  // who reads what is shown may go; the run goes on
  const auto stream = std::make_shared<ConsoleStream>(json ? STDERR_FILENO : STDOUT_FILENO);
  const StopWatcher watcher({.on_first =
                                 [&, terminal = is_terminal(json ? stderr : stdout)](int signal) {
                                   if (ranks.rank == 0) stream->write(answer_to(signal, terminal));
                                 },
                             .on_again = [](int signal) { std::_Exit(128 + signal); },
                             .on_thread = [around = io.placement.processors] { bind_this_thread(around); },
                             .under_launcher = ranks.by_athanor()});
  const auto console = ranks.rank == 0 ? make_console(json, config.train.log_every, stream) : nullptr;
  if (console != nullptr && !ranks.believed.empty()) console->message(ranks.believed);
  GroupOptions options;
  options.timeout_ms = config.launch.timeout_ms;
  options.on_late = [](const std::string& report) { std::fprintf(stderr, "athanor: %s\n", report.c_str()); };
  Trace trace;
  const bool traced = config.train.trace || profile;
  if (traced)
    options.on_done = [&trace](const std::string& name, int64_t start_ns, int64_t end_ns) {
      trace.add(name, "comm", start_ns, end_ns);
    };
  io.console = console.get();
  io.stop = &watcher.requested();
  io.ranks_of_host = ranks.local_world_size;
  io.rank_of_host = ranks.local_rank;
  io.snapshot_fd = ranks.snapshot_fd;
  if (const char* plan = std::getenv(chaos::FaultPlan::kVariable))
    io.in_front = [plan = std::make_shared<chaos::FaultPlan>(plan)](World& world) {
      return chaos::with_faults(world, plan);
    };
  if (const char* isa = std::getenv("ATHANOR_MAX_ISA")) io.highest_isa = std::min(best_isa(), parse_isa(isa));
  io.cuda_plugin = cuda_plugin();
  io.nccl_module = beside_program("athanor_nccl.so");
  options.on_thread = [around = io.placement.processors] { bind_this_thread(around); };
  io.group_options = options;
  io.from = from;
  io.phase = phase;
  if (!decisions.empty()) io.decisions = parse_decisions(system_env().read_text(decisions), decisions);
  io.command_line = {"train", file};
  if (!from.empty()) io.command_line.insert(io.command_line.end(), {"--from", from});
  if (!phase.empty()) io.command_line.insert(io.command_line.end(), {"--phase", phase});
  if (!decisions.empty()) io.command_line.insert(io.command_line.end(), {"--decisions", decisions});
  for (const std::string& set : overrides) io.command_line.push_back("--set " + set);
  ProgressLine line;
  io.tokenizing = show_tokenizing(line);
  if (traced) io.trace = &trace;
  Profiler profiler(&trace);
  if (profile) io.profiler = &profiler;
  TrainReport report;
  try {
    if (is_worker_of_an_agent(ranks, config)) {
      io.is_launched = true;
      const MeasureOptions measured{
          .matrix_product = {.threads = threads_of_rank(config, ranks.local_world_size),
                             .isa = config.train.isa == "auto" ? io.highest_isa : parse_isa(config.train.isa),
                             .placement = io.placement},
          .run_folder = RunFolder(config).path,
          .rank = ranks.rank};
      report = train_as_worker(ranks, options, measured,
                               [&](Rendezvous& rendezvous) { return run::train(config, rendezvous, io); });
    } else {
      const auto world = open_world(ranks, config.parallel.transport, options);
      place(share_of_processors(world->all(), host_identity(), cores));
      report = train_in(*world, config, io);
    }
  } catch (const std::exception&) {
    if (console != nullptr) console->finish();
    if (console != nullptr && !io.is_launched && has_failed_here(RunFolder(config).path))
      leave_run_page(system_env(), RunFolder(config).path,
                     [&](const std::string& text) { console->warning(text); });
    throw;
  }
  if (profile && ranks.rank == 0) {
    const Profile found = profiler.profile();
    try {
      system_env().write_atomically(join_path(report.run_folder, "profile.json"), found.to_json());
    } catch (const IoError& error) {
      console->warning(error.what());
    }
    stream->write(found.table());
  }
  if (ranks.rank == 0 && !io.is_launched) {  // else the launcher does
    leave_run_page(system_env(), report.run_folder, [&](const std::string& text) { console->warning(text); });
    if (json) print_report(report);
  }
  if (report.status == "interrupted") throw Exit{kInterruptedExitCode};
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("train", "Train a model in this process, or as one rank of a launch");
  auto command = std::make_shared<TrainCommand>();
  sub->add_option("FILE.toml", command->file, "The run's settings")->required();
  sub->add_option("--set", command->overrides, "Override a setting, e.g. train.steps=100")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  auto* phase = sub->add_option("--phase", command->phase,
                                "Train one phase of FILE only: a chain of phases made by hand");
  sub->add_option("--from", command->from,
                  "With --phase: go on from this checkpoint, or the newest of this run, optimizer included")
      ->needs(phase);
  sub->add_option("--decisions", command->decisions,
                  "Follow these decisions, of this run or another: batches to skip (docs/run_folder.md)")
      ->type_name("FILE.jsonl");
  sub->add_flag("--print-config", command->print_config,
                "Print all settings with units and origins, and stop");
  sub->add_flag("--profile", command->profile,
                "Print where the time of a step goes, kernel by kernel, and write profile.json and\n"
                "trace/rank*.json (for Chrome or Perfetto) into the run's folder");
  sub->add_flag("--json", command->json,
                "Print the run's report as one JSON document; progress to standard error");
  sub->footer(
      "Examples:\n"
      "  athanor train run.toml\n"
      "  athanor train run.toml --set train.steps=100 --set optimizer.lr=1e-3\n"
      "  athanor train run.toml --print-config\n"
      "  athanor train long.toml --from runs/short --phase 'long context'\n"
      "\n"
      "Running it again on an existing run resumes it from its newest valid checkpoint.\n"
      "Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU save a checkpoint and end; a second one ends "
      "at\n"
      "once. What is ignored at the start (nohup) stays ignored.\n"
      "Ranks must have the same settings, data and run folder, and use one instruction set: with train.isa = "
      "\"auto\"\n"
      "the highest that all have. ATHANOR_MAX_ISA=avx2 makes this rank offer no more than that.\n"
      "Exit codes: 0 ok, 1 failed, 2 wrong command line or config, 75 interrupted after saving: start it "
      "again;\n"
      "128 + N ended at once by a second signal N.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
