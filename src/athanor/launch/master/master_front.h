// The Master as its agent sees it: in a process of its own, which is started again when it dies or falls silent, or, without a
// command for that, in this process. What Master (master.h) is told here, it is told there.
//
//   MasterFront master({.master = options, .command = {own_program, "launch-master"}, .folder = folder});
//   master.start(now);
//   for (const MasterAction& action : master.take_actions()) { ... }
//
// Each input waits for its answer. A master that does not give it within patience_ms is killed; the next one takes up from the
// journal and is told the same input: no decision is lost, none is taken twice, and actions are given only when the whole
// answer is there. A new master has ten seconds for its first answer: where the machine is loaded to the brim a process
// starts slowly. Ranks train meanwhile. Progress is told at most every kProgressNs, with the next other input, or at the
// next tick. An agent that takes over from another one goes on with its journal. Errors: Error where one master after the other
// fails, and where a journal is gone. Thread rule: one thread; the process dies with it.
#pragma once

#include <poll.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/launch/keeper/agent_notes.h"
#include "athanor/launch/master/master_process.h"
#include "athanor/launch/worker.h"

namespace athanor::launch::master {

constexpr int64_t kProgressNs = 200'000'000;

struct MasterFrontOptions {
  MasterOptions master{};
  std::vector<std::string>
      command{};  // serves a master at the descriptor whose number follows it; empty: no process
  std::vector<std::string> environment{};
  std::string folder{};  // of the journal, which somebody else removes with all that is in it
  int patience_ms = 1'000;
  sigset_t signal_mask{};  // of the process
  std::optional<keeper::ActionsDone>
      takes_up{};  // a journal of which another agent has done so much; none: a new one
  std::function<void()> while_waiting = [] {};  // called now and then where an answer takes long
  std::function<void(const std::string& why)> on_replaced = [](const std::string&) {};
};

// An action, and what is done then.
struct NumberedAction {
  MasterAction action;
  keeper::ActionsDone done;
};

class MasterFront {
 public:
  explicit MasterFront(MasterFrontOptions options);

  // Or goes on where the agent before this one was. `left_off`: the newest world of which the Meet was sent, if any.
  void start(int64_t now_ns);
  const std::optional<FormWorld>& left_off() const { return left_off_; }
  void hello(int worker, int64_t now_ns);
  void said(int worker, const control::WorkerMessage& message, int64_t now_ns);
  void refused(int worker, const std::string& why, int64_t now_ns) {
    tell({now_ns, WorkerRefused{worker, why}});
  }
  void exited(int worker, const RankEnd& end, int64_t now_ns) { tell({now_ns, WorkerExited{worker, end}}); }
  void failed(const std::string& why, int64_t now_ns) { tell({now_ns, AgentFailed{why}}); }
  void stop(int signal, bool again, int64_t now_ns) { tell({now_ns, StopAsked{signal, again}}); }
  std::string scale(int num_ranks, int64_t now_ns) { return tell({now_ns, ScaleAsked{num_ranks}}); }
  std::string order(const control::Order& order, int64_t now_ns) { return tell({now_ns, OrderAsked{order}}); }
  void tick(int64_t now_ns);

  std::vector<MasterAction> take_actions();
  std::vector<NumberedAction> take_numbered_actions();
  int64_t begun_generation() const { return summary_.begun; }
  int stop_signal() const { return summary_.stop; }
  int64_t warm_up_round() const { return summary_.warm_up; }
  int64_t next_tick_ns() const;
  bool done() const { return summary_.done; }
  bool goes_on() const { return summary_.goes_on; }
  int64_t generation() const { return summary_.generation; }
  int64_t step() const { return summary_.step; }
  int size() const { return static_cast<int>(summary_.workers.size()); }
  int worker_of(int rank) const;
  control::JobStatus status(int64_t now_ns);
  Verdict verdict(std::optional<int> blamed);

  int64_t process() const { return server_ ? server_->pid() : -1; }  // of the master; -1: it is this one
  void add_polled(std::vector<pollfd>& polled) const;  // one entry, which says that it has ended
  void look();                                         // replaces it then

 private:
  std::string tell(const MasterInput& input);
  void tell_progress();
  void take_up(const keeper::ActionsDone& done);
  std::string tell_now(const MasterInput& input);
  std::vector<std::string> ask(const std::string& request,
                               const std::function<bool(const std::vector<std::string>& packets)>& is_all);
  void begin();
  void replace(const std::string& why);

  MasterFrontOptions options_;
  std::optional<Master> own_;
  std::optional<Worker> server_;
  std::optional<control::PacketChannel> channel_;
  int64_t number_ = 0;   // of the last input
  bool is_new_ = false;  // the master: it has answered nothing yet
  MasterSummary summary_;
  std::vector<NumberedAction> actions_;
  std::optional<FormWorld> left_off_;
  std::map<int, MasterInput> progress_;  // by worker, not told yet
  int64_t progress_at_ns_ = kNeverNs;
};

}  // namespace athanor::launch::master
