// One run of the job under `athanor launch`, held from outside: its processes, what they write, and the means to strike
// them.
//
//   JobHandle job({.program = own_program(), .num_ranks = 2, .config = "run.toml", .runs = "chaos_x", .name = "trial_0"});
//   job.wait([&] { return job.watch().best_step() >= 41; }, never);
//   job.find_ranks();
//   job.strike({1}, SIGKILL);
//   job.wait([&] { return job.has_recovered(); }, deadline_ns);
//   job.wait_for_end(deadline_ns);
//
// The destructor kills the job. Errors: IoError where the system gives no process. Thread rule: one thread; the job dies
// with it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/chaos/fault_plan.h"
#include "athanor/chaos/leftovers.h"
#include "athanor/chaos/run_watch.h"
#include "athanor/chaos/small_disk.h"
#include "athanor/control/descriptor.h"
#include "athanor/launch/worker.h"

namespace athanor::chaos {

struct JobCommand {
  std::string program{};  // athanor's path
  int num_ranks = 1;
  std::string config{};                    // FILE.toml
  std::vector<std::string> settings{};     // of --set
  std::string runs{}, name{};              // the run is runs/name
  std::vector<std::string> environment{};  // NAME=value; usually this process's own
  struct Planned {
    int rank;
    PlannedFault fault;
  };
  std::optional<Planned> planned{};   // fault_plan.h
  bool takes_plans = false;           // of JobHandle::ask(), while it runs
  std::shared_ptr<SmallDisk> disk{};  // on which `runs` lies; null: on that of everybody
  std::string run_folder() const;
  void set(const std::vector<std::string>& more);  // in place of what is set there already
};

class JobHandle {
 public:
  explicit JobHandle(const JobCommand& command);
  ~JobHandle();
  JobHandle(const JobHandle&) = delete;
  JobHandle& operator=(const JobHandle&) = delete;

  RunWatch& watch() { return watch_; }
  const RunWatch& watch() const { return watch_; }
  bool runs() const { return launcher_.running(); }

  // Follows the run until `done`, the time, or the end of the job; whether `done` was true. `done` is asked after each
  // write to the run's folder.
  bool wait(const std::function<bool()>& done, int64_t until_ns);
  bool wait_for_end(int64_t until_ns);  // false: it still runs
  void end_now();                       // kills the launcher, with which its ranks die

  // Notes the processes of the ranks as they are now; strike() reaches only these.
  void find_ranks();
  void strike(const std::vector<int>& ranks, int signal);
  void strike_launcher(int signal);
  void signal(const std::vector<int>& ranks, int signal);  // is no strike
  void signal_launcher(int signal) { launcher_.signal(signal); }
  void wait_for_end_of(int rank);  // of its process; not long
  // What kept a fault from being done, which fails the trial.
  void note(const std::string& why) { notes_.push_back(why); }
  const std::vector<std::string>& notes() const { return notes_; }
  const JobCommand& command() const { return command_; }
  SmallDisk& disk() { return *command_.disk; }
  pid_t pid_of(int rank) const {
    return ranks_.contains(rank) ? ranks_.at(rank).pid : -1;
  }  // as of find_ranks()
  pid_t launcher_pid() const { return launcher_.pid(); }
  enum class Journal { kept, lost };  // of the master, which is removed just before
  void strike_master(int signal = SIGKILL, Journal journal = Journal::kept);
  void strike_agent(int signal = SIGKILL, Journal journal = Journal::kept);
  void note_strike();  // what is struck otherwise
  void ask(int rank, const PlannedFault& fault);
  void forget_strike();  // for the next one: the ranks are those of now
  void wait_for_plan();  // until the rank has carried it out: that is the strike

  // Since the first strike: whether a step of a generation newer than all before it has been seen.
  bool has_recovered() const { return recovery_step() != nullptr; }
  // Which: the first such step that was seen since the last strike; null: none yet.
  const SeenStep* recovery_step() const;
  // Whether the ranks that were not struck still run in the processes of find_ranks().
  bool survivors_run() const;

  struct Struck {
    int64_t first_ns, last_ns;     // the first and the last strike
    int64_t step, generation;      // the newest that had been seen before the first one; 0, -1: none
    size_t num_steps, num_events;  // of the watch, before the last one
    std::vector<int>
        missed{};  // ranks whose process had ended by itself; -1: the master's had, -2: the agent's
  };
  const std::optional<Struck>& struck() const { return struck_; }

  int exit_code() const { return launcher_.exit_code(); }  // -1: killed, or it still runs
  std::string ending() const { return launcher_.ending(); }
  const std::string& last_words() const { return last_words_; }         // the end of standard error
  std::vector<std::string> leftovers() { return traces_.leftovers(); }  // call it after the end

 private:
  void strike_process(pid_t process, int signal, int missed, Journal journal);
  void read_errors();

  JobCommand command_;
  JobTraces traces_;
  RunWatch watch_;
  launch::Worker launcher_;
  struct RankProcess {
    pid_t pid;
    control::Descriptor fd;
    bool was_struck = false;
  };
  std::map<int, RankProcess> ranks_;
  std::optional<Struck> struck_;
  std::string last_words_;
  std::vector<std::string> notes_;
  std::optional<FaultPlan> plan_;
  std::optional<JobCommand::Planned> asked_;
};

}  // namespace athanor::chaos
