// A Run lives as long as the process: config, data, memory, the state of training, and what it tells people. It is cut
// into segments (segment.h): each is one phase on one world with one layout and one engine.
//
//   Run run(config, meeting, io);
//   run.resolve();                        // the config by the tokenizer, and its phases
//   run.open_data();
//   run.open(/*has_state=*/false);        // the folder, its lock, the state to go on from
//   while (run.state.step < run.last_step()) train_in(run.phase());
//   run.meet(next);                       // after a failure of a group: in another world
//
// Errors: ConfigError for settings, Error for data and files, Recoverable from the group. Thread rule: one thread per
// rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/phases.h"
#include "athanor/engine/state.h"
#include "athanor/observe/run_events.h"
#include "athanor/run/decisions/decision_log.h"
#include "athanor/run/guards.h"
#include "athanor/run/recorder.h"
#include "athanor/run/rendezvous.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_keeper.h"
#include "athanor/run/run_phase.h"
#include "athanor/run/samples.h"
#include "athanor/run/save_schedule.h"
#include "athanor/run/slot_saves.h"
#include "athanor/run/trainer.h"
#include "athanor/run/tuning/tuning_memory.h"

namespace athanor::run {

struct Run {
  Run(const Config& agreed, const Meeting& meeting, const TrainIo& io);
  void meet(const Meeting& meeting);  // its world is the run's from here on

  void resolve();    // opens the tokenizer; config and phases are not changed after it
  void open_data();  // tokenizes text that is new
  // Takes the folder. Unless the ranks have the state in memory, it becomes that of a checkpoint, or a fresh one. What
  // other ranks know and a process that has just joined does not, it gets. `back_to`: a guard or the operator has the run go on
  // after that step at the latest; newer checkpoints are set aside. Collective.
  void open(bool has_state, std::optional<int64_t> back_to = {});
  // decisions/run_settings.cpp: the settings of the next step, by decisions and without; and one more from it on.
  void follow_settings();
  void forget_decided_settings();
  void set_setting(const std::string& setting, const std::string& why = "the operator wants it");
  void forget_settings_after(int64_t step);  // the operator goes back to before them
  void bind_thread();  // after open_data(): threads that prepare data would inherit the binding
  // A segment begins, after the step that the state has: its generation, and the files that record it.
  void begin(const std::string& resolved_config);
  // Undoes steps: the run goes on after `step` at the latest, in a generation of its own. Newer checkpoints are set aside; then
  // the state is that of the newest one that is left. Collective.
  void go_back(int64_t step);
  // Of checkpoints that are written out of the slots: rank 0 takes what it is told, without waiting; and all ranks wait for
  // the end of what they have handed over. Collective.
  void take_saved();
  void settle_saved();
  void wait_for_writer();  // rank 0, until whoever held slots of an earlier world writes no checkpoint
  void load_state() { find_state(); }  // of the newest checkpoint, or the first one
  int64_t next_generation() const { return first_generation_ + world->generation(); }
  int64_t recorded_step() const;  // the newest one whose metrics stand in the run's file; -1: there is none
  bool has_slots() const { return slots_fd >= 0; }
  void tell_decisions();  // after a step: those that it was the first to follow
  void say_doubts();
  void tell(RunEvent event);                    // on rank 0; its step is the newest unless it names one
  void tell_went_back(const std::string& why);  // the run goes on after steps that a guard has undone
  void report_incidents();                      // where no launcher does
  void renew_report(double tokens_per_second);
  void write_report(const char* status);
  void write_trace(int rank);
  void failed(const std::string& reason) noexcept;  // records it, and closes what the console shows

  int64_t last_step() const { return phases.back().last_step; }
  const RunPhase& phase() const { return phase_of(state.step + 1); }  // of the next step
  const RunPhase& phase_of(int64_t step) const;
  Ending ending() const;
  // Where a fresh engine takes its values from: the checkpoint that the run goes on from; "": there is none.
  std::string start_checkpoint() const;
  // In host memory: the run's own, or on a device one beside it.
  Arena& snapshot_arena();

  // After each step, once its metrics are written; and on rank 0, after each save. `error`: why it failed.
  std::function<void(int64_t step)> committed = [](int64_t) {};
  std::function<void(int64_t step, const std::string& path, const std::string& error)> told_saved =
      [](int64_t, const std::string&, const std::string&) {};
  std::function<void(const RunEvent& event)> happened = [](const RunEvent&) {};         // under a launcher
  std::function<void(control::ProgressKind kind)> does = [](control::ProgressKind) {};  // doing.h
  std::function<void()> progressed = [] {};                                             // of the same
  control::ProgressKind doing = control::ProgressKind::other;
  Config config;  // as of the next step
  Config said;    // the same without decisions of the run
  TrainIo io;
  World* world;  // of the newest meeting
  int slots_fd;  // of the same; -1: nobody holds slots for this rank
  RunFolder folder;
  RunKeeper keeper;
  int threads;
  ThreadPool pool;
  std::optional<BoundThread> bound;  // the thread that trains, as the pool's first
  std::unique_ptr<Queue> queue;
  Arena arena;
  std::vector<RunPhase> phases;
  std::optional<Recorder> recorder;
  std::optional<RunEvents> events;  // of rank 0
  std::optional<SampleWriter> samples;
  TrainState state;
  std::vector<Decision> decisions;  // those of the state, and those to come, as far as given
  int64_t generation = -1;  // of the run, which counts its processes and their worlds; -1: none has begun
  TrainReport report;
  SaveSchedule saves;
  SlotSaves slot_saves;
  Guards guards;
  tuning::TuningMemory tuning;
  std::string went_back_because = {};  // why the segment to come follows a go_back(); "": it does not
  double went_back_at = 0.0;           // and since when nothing has been trained
  int64_t saved_step = -1;
  bool saves_first = false;   // the next segment writes a checkpoint before its first step
  bool may_owe_save = false;  // the state came from memory: a failure may have been before it was saved
  std::vector<double> rates;  // tokens per second of the steps of this process
  double flops_per_token = 0.0, peak_flops = 0.0;  // the peak: of all ranks together

 private:
  void use_threads();
  void tell_saved(const control::Persisted& saved);
  void open_recorder();
  void find_state();
  void forget_checkpoints_after(int64_t step);
  void plan_decisions();
  void share_guards();
  void count_generations();
  void share_knowledge(bool has_state);
  void keep_one_phase();  // TrainIo::phase, at the step that it begins at

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string from_;                         // the checkpoint of TrainIo::from
  int64_t first_generation_ = -1;            // that of world 0; -1: not known yet
  std::optional<DecisionLog> decision_log_;  // of rank 0
  std::string resolved_config_;              // that the run's folder has
  size_t num_told_ = 0;                      // of the decisions of the state
  std::unique_ptr<Queue> host_queue_;
  std::unique_ptr<Arena> host_arena_;
};

}  // namespace athanor::run
