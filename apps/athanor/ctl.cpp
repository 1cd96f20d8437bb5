// athanor ctl RUN COMMAND: asks and steers the launcher of a run.
#include <fmt/core.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/command_line/print.h"
#include "athanor/base/check.h"
#include "athanor/base/file.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/control/operator_messages.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/job_file.h"
#include "athanor/observe/event_log.h"
#include "athanor/run/run_history.h"
#include "command.h"
#include "ctl_events.h"

namespace athanor::apps {
namespace {

constexpr int kPatienceMs = 10'000;  // of a launcher that answers at once

struct CtlCommand {
  std::string run;
  int num_ranks = 0, rank = 0;
  int64_t step = 0;
  std::string setting;
  bool json = false;

  std::string folder() const;
  PacketChannel connect() const;
  bool still_listens() const;
  OperatorAnswer ask(const OperatorRequest& request) const;
  void show_status() const;
  void show_events() const;
  void do_it(const char* what, const OperatorRequest& request) const;
  void roll_back() const;
};

std::string CtlCommand::folder() const {
  std::string path = run;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!system_env().is_folder(path))
    throw Error(fmt::format("ctl: '{}' is no folder of a run", printable(path)),
                "give the folder of a run, such as runs/first");
  return path;
}

// What the last process of a run that nobody launches now came to.
std::string last_words(const std::string& path) {
  const auto found = run::run_status(system_env(), path);
  if (!found) return "";
  if (found->status == "running")
    return fmt::format("process {} on {} trains it without a launcher", found->pid, found->host);
  return fmt::format("its last process is {}, at step {}", found->status, found->steps);
}

PacketChannel CtlCommand::connect() const {
  const std::string path = folder();
  const auto job = read_job_file(path);
  if (!job) throw Error(fmt::format("ctl: no launcher trains '{}' now", printable(path)), last_words(path));
  if (job->socket.empty())
    throw Error(fmt::format("ctl: the launcher of '{}' (process {} on {}) takes no requests", printable(path),
                            job->pid, job->host));
  try {
    return PacketChannel::connect(job->socket);
  } catch (const IoError& error) {
    if (error.code() != ECONNREFUSED && error.code() != ENOENT) throw;
    throw Error(fmt::format("ctl: no launcher trains '{}' now: process {} on {} is gone, or on another host",
                            printable(path), job->pid, job->host),
                last_words(path));
  }
}

bool CtlCommand::still_listens() const {
  try {
    connect();
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// The last answer to a request. One that takes its time is said on standard error.
OperatorAnswer CtlCommand::ask(const OperatorRequest& request) const {
  PacketChannel channel = connect();
  channel.send(encode(request));
  int patience_ms = kPatienceMs;
  while (true) {
    pollfd polled{channel.fd(), POLLIN, 0};
    if (poll(&polled, 1, patience_ms) == 0)
      throw Timeout(
          fmt::format("ctl: the launcher of '{}' has not answered for {} s", run, patience_ms / 1000));
    const auto packet = channel.receive();
    if (channel.closed()) {
      if (!still_listens()) throw Recoverable(fmt::format("ctl: the launcher of '{}' has ended", run));
      if (std::holds_alternative<AskStatus>(request)) return ask(request);
      throw Recoverable(
          fmt::format("ctl: the agent of the launcher of '{}' was replaced before it answered", run),
          fmt::format("what was asked may have been done: athanor ctl {} events", run));
    }
    if (!packet) continue;
    OperatorAnswer answer = decode_operator_answer(packet->text);
    const auto* working = std::get_if<Working>(&answer);
    if (working == nullptr) return answer;
    std::fprintf(stderr, "athanor: %s\n", working->what.c_str());
    patience_ms = -1;
  }
}

Json known(int64_t value) {
  return value < 0 ? Json() : Json(value);
}

void CtlCommand::show_status() const {
  const OperatorAnswer answer = ask(AskStatus{});
  const auto* job = std::get_if<JobStatus>(&answer);
  check(job != nullptr, "ctl: the launcher of '{}' gave no status", run);
  if (json) {
    Json ranks = Json::array();
    for (const RankStatus& one : job->ranks)
      ranks.push_back({{"rank", one.rank},
                       {"pid", known(one.pid)},
                       {"node", one.node},
                       {"state", name_of(one.state)},
                       {"step", known(one.step)}});
    print_json({{"run", job->run.empty() ? folder() : job->run},
                {"step", known(job->step)},
                {"generation", known(job->generation)},
                {"goodput", job->goodput},
                {"ranks", ranks}});
    return;
  }
  const auto text = [](int64_t value) { return value < 0 ? std::string("-") : std::to_string(value); };
  print(fmt::format("{}: step {}, generation {}, goodput {:.1f} %\n\n", printable(folder()), text(job->step),
                    text(job->generation), 100.0 * job->goodput));
  print(fmt::format("{:>5}  {:>8}  {:>5}  {:<9}  {:>10}\n", "rank", "process", "node", "state", "step"));
  for (const RankStatus& one : job->ranks)
    print(fmt::format("{:>5}  {:>8}  {:>5}  {:<9}  {:>10}\n", one.rank, text(one.pid), one.node,
                      name_of(one.state), text(one.step)));
}

// A last line without its end is still being written.
void CtlCommand::show_events() const {
  const std::string path = join_path(folder(), kEventsName);
  if (!system_env().exists(path))
    throw Error(fmt::format("ctl: '{}' has no {}", printable(folder()), kEventsName),
                "it is written from the first step on");
  const std::string text = system_env().read_text(path);
  for (size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    const std::string line = text.substr(start, end - start);
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json || !event.is_object())
      print((json ? line : printable(line)) + "\n");
    else
      print(event_line(event) + "\n");
  }
}

void CtlCommand::do_it(const char* what, const OperatorRequest& request) const {
  const OperatorAnswer answer = ask(request);
  if (const auto* refused = std::get_if<Refused>(&answer)) fail("ctl {}: {}", what, refused->why);
  const auto* done = std::get_if<Done>(&answer);
  check(done != nullptr, "ctl {}: the launcher of '{}' gave another answer", what, run);
  if (json)
    print_json({{"done", done->what}});
  else
    print(done->what + "\n");
}

void CtlCommand::roll_back() const {
  connect();  // no launcher: that is said first
  std::string there;
  for (const std::string& path : list_checkpoints(system_env(), join_path(folder(), "checkpoints"))) {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), path);
    if (checkpoint.step() == step) {
      checkpoint.verify();
      return do_it("rollback", GoBack{step});
    }
    there += fmt::format("{}{}", there.empty() ? "" : ", ", checkpoint.step());
  }
  fail("ctl rollback: got step {}, expected one that has a checkpoint: {}", step,
       there.empty() ? "there is none" : there);
}

CLI::App* add(CLI::App& parent, const std::shared_ptr<CtlCommand>& command, const char* name,
              const char* help) {
  CLI::App* sub = parent.add_subcommand(name, help);
  sub->add_flag("--json", command->json, "Print JSON");
  return sub;
}

}  // namespace

void add_ctl(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("ctl", "Ask and steer a run that athanor launch trains");
  auto command = std::make_shared<CtlCommand>();
  sub->add_option("RUN", command->run, "The folder of the run: runs/NAME")->required();
  sub->require_subcommand(1);
  add(*sub, command, "status",
      "What each rank does, and the share of the time in which all trained (goodput)")
      ->callback([command] { command->show_status(); });
  add(*sub, command, "events", "What has happened to the ranks: events.jsonl; also when no job runs")
      ->callback([command] { command->show_events(); });
  CLI::App* scale = add(*sub, command, "scale", "Go on with N ranks, launch.min_ranks to launch.max_ranks");
  scale->add_option("N", command->num_ranks, "How many ranks")->required()->type_name("");
  scale->callback([command] { command->do_it("scale", ScaleTo{command->num_ranks}); });
  CLI::App* kill = add(*sub, command, "kill", "Kill the process of a rank; returns when recovery has begun");
  kill->add_option("RANK", command->rank, "Which rank")->required()->type_name("");
  kill->callback([command] { command->do_it("kill", KillRank{command->rank}); });
  add(*sub, command, "snapshot", "Write a checkpoint now; returns when it is written")->callback([command] {
    command->do_it("snapshot", SaveNow{});
  });
  CLI::App* set =
      add(*sub, command, "set", "Change a setting from the next step on, as a decision of the run");
  set->add_option("KEY=VALUE", command->setting,
                  "optimizer.*, schedule.*, guard.*, train.eval_every, checkpoint.every_steps ...")
      ->required()
      ->type_name("");
  set->callback([command] { command->do_it("set", Set{command->setting}); });
  CLI::App* back = add(*sub, command, "rollback", "Go back to the checkpoint of a step, which must be there");
  back->add_option("STEP", command->step, "The step of a checkpoint")->required()->type_name("");
  back->callback([command] { command->roll_back(); });
  sub->footer(
      "Examples:\n"
      "  athanor ctl runs/first status\n"
      "  athanor ctl runs/first scale 3\n"
      "  athanor ctl runs/first set optimizer.lr=1e-4\n"
      "  athanor ctl runs/first events --json\n"
      "\n"
      "For launches on one node, by the user who launched. What is refused leaves the job as it is.\n"
      "Checkpoints of steps after that of a rollback move to RUN/abandoned.\n"
      "Exit codes: 0 done, 1 refused or no job runs, 2 wrong command line.");
}

}  // namespace athanor::apps
