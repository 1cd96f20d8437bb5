// What run_agent() (agent.h) is made of: the loop that waits for something to happen, tells the Master, and does what it
// decides. agent.cpp has the loop; each other file of its name has the functions that stand under its name below.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/control/pulse.h"
#include "athanor/launch/agent.h"
#include "athanor/launch/agent_watches.h"
#include "athanor/launch/diagnosis/failure_report.h"
#include "athanor/launch/generation_memory.h"
#include "athanor/launch/job_file.h"
#include "athanor/launch/job_record.h"
#include "athanor/launch/keeper/agent_notes.h"
#include "athanor/launch/keeper/keeper_line.h"
#include "athanor/launch/master/master_front.h"
#include "athanor/launch/operator_desk.h"
#include "athanor/launch/output/rank_output.h"
#include "athanor/launch/output/writer_thread.h"
#include "athanor/launch/rank_processes.h"
#include "athanor/launch/reception.h"
#include "athanor/launch/signals_blocked.h"
#include "athanor/launch/slot_saver.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

class AgentLoop {
 public:
  // With a `keeper`, which outlives it, it is one of several agents of a job, one after the other (keeper/keeper.h).
  explicit AgentLoop(const LaunchOptions& options, KeeperLine* keeper = nullptr);
  LaunchResult run();

 private:
  void wait_for_something();
  void take_signals();
  void take_stop(int number, int64_t at_ns);
  void take_arrivals();
  void welcome(int worker);
  void take_packets(int worker, int most);
  void take_message(int worker, const WorkerMessage& message,
                    const std::vector<control::Descriptor>& descriptors);
  bool is_met_already(int worker, const WorkerMessage& message) const;
  void take_progress(int worker, const Progress& progress, int64_t now_ns);
  void take_ending(int worker, int64_t seen_ns);
  MasterFrontOptions master_options();
  void read_output();
  void tell_replaced(const std::string& why);

  // agent_actions.cpp
  void act();
  void act(const StartWorker& start);
  void act(const FormWorld& form);
  void send_meet(size_t rank);
  GenerationMemory* newest_memory();
  void act(const BreakWorld& broken);
  void act(const LeaveWorld& left);
  void act(const ReleaseSlots& release);
  void keep_slots_of_last(int64_t generation);
  void act(const SendToWorker& send);
  void act(const SignalWorker& signal);
  void act(const Say& say);
  void act(const JobEvent& event) { record_.add(event); }

  // agent_saves.cpp: checkpoints that are written out of the slots
  void start_save(const control::Persist& persist, const std::vector<control::Descriptor>& descriptors);
  void take_saves();
  void release_pins_of(int64_t generation);
  void end_saves();

  // agent_adoption.cpp: what agents before this one have left, and it leaves to the next
  void adopt();
  void adopt_memories();
  void go_on_where_left();
  void tell_takeover();
  void hold();
  void take_keeper();
  void pause();

  // agent_operator.cpp
  void take_requests();
  void answer(int64_t from, const control::AskStatus& ask);
  void answer(int64_t from, const control::ScaleTo& scale);
  void answer(int64_t from, const control::KillRank& kill);
  void answer(int64_t from, const control::SaveNow& save);
  void answer(int64_t from, const control::GoBack& back);
  void answer(int64_t from, const control::Set& set);
  void tell_killed(int worker, int rank, const std::string& how);
  void tell_not_set(const JobEvent& event);
  void tell_begun(const control::Begun& begun);
  void tell_saved(const control::Saved& saved);
  void open_run(const std::string& run_folder);

  // agent_watch.cpp: ranks that are stopped, slow, or have ever more memory; the machine
  void look_at_ranks(int64_t now_ns);
  void tell(const StoppedRank& found, int worker);
  void look_at_memory(int64_t now_ns);
  void look_at_hardware(int64_t now_ns);
  void look_for_slow(int worker, const Progress& progress, int64_t now_ns);

  // agent_hangs.cpp
  void look_for_hang(int64_t now_ns);
  void tell(const Standstill& found, const HangReport& report, bool may_kill);

  // agent_failures.cpp
  RankEnd end_of(int worker, int64_t seen_ns);
  void tell_failure(const Verdict& verdict, LaunchResult& result);
  std::string keep_output(int rank);

  WorkerCommand command_of(int rank, int worker) const;
  void send(int worker, const AgentMessage& message, const std::vector<int>& descriptors = {});
  LaunchResult conclude();

  const LaunchOptions& options_;
  KeeperLine* keeper_;  // null: this agent is the only one
  bool control_;        // else all is in the environment
  AgentNotes notes_;
  SignalsBlocked signals_;
  WriterThread writer_;
  RankOutput output_;
  JobRecord record_;
  std::optional<Reception> reception_;
  MasterFront master_;
  StopRequests requests_;
  std::string job_, run_folder_;
  std::optional<control::Pulse> pulse_;
  JobFile job_file_;
  std::optional<OperatorDesk> desk_;
  std::map<int, std::vector<int64_t>> wait_for_end_;  // of a worker
  WaitingOperator wait_for_save_, wait_for_rollback_, wait_for_setting_;
  std::string setting_;
  int64_t rollback_step_ = -1;
  std::map<int64_t, GenerationMemory> memories_;  // by generation
  SlotSaver saver_;
  std::optional<FormWorld> newest_;  // the world that was formed last
  bool is_alone_ = false;            // the keeper is gone
  RankProcesses processes_;
  AgentWatches watches_;
  std::map<int, std::string> killed_because_;  // by worker
  std::map<int, std::string> killed_by_;       // workers, by whom, where that has been said
  std::map<int, FailureReport> failures_;      // by rank, of its newest process that failed
  int64_t newest_step_ = -1, step_ns_ = -1;    // which a rank told first, and when
};

}  // namespace athanor::launch
