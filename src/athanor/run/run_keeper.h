// Manages a run's folder for the process that trains it: the lock, the checkpoint to resume from, which checkpoints are
// kept, and report.json while the process runs and when it fails.
//
//   RunKeeper keeper(env, RunFolder(config), group.rank() == 0);
//   keeper.take(group);                              // rank 0 locks the folder; then all ranks open their recorders
//   if (auto state = keeper.find_state(group, config, identity_at, recorder)) load(keeper.checkpoint());
//   keeper.saved(path, step);                        // after each save
//   keeper.confirm(keep, recorder);                  // after each step with a finite loss
//
// Every method may be called on every rank; only rank 0 writes. Errors: Error for a run that another process trains,
// that cannot be resumed, or that lost its checkpoints; IoError of the Env. Thread rule: one thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/group.h"
#include "athanor/config/config.h"
#include "athanor/engine/state.h"
#include "athanor/run/finite.h"
#include "athanor/run/recorder.h"
#include "athanor/run/run_history.h"

namespace athanor::run {

class RunKeeper {
 public:
  RunKeeper(Env& env, const RunFolder& folder, bool is_first, bool is_launched = false)
      : env_(env), folder_(folder), is_first_(is_first), is_launched_(is_launched) {}

  void take(Group& group);  // in each world
  // Whether there is a checkpoint of that step. Collective. Then set_aside_after() moves newer ones away, to `abandoned`.
  bool can_go_back(Group& group, int64_t step) const;
  void set_aside_after(int64_t step);

  // The state of the newest checkpoint; none: a fresh start. Tells the recorder how the previous process ended.
  // `data_identity`: of the data that a step of the run reads.
  std::optional<TrainState> find_state(Group& group, const Config& config,
                                       const std::function<std::string(int64_t step)>& data_identity,
                                       Recorder& recorder);
  // How the layout differs from the one that the checkpoint was trained in, where that keeps only the tolerance.
  const std::optional<LayoutChange>& layout_change() const { return layout_change_; }
  // The newest complete and finite checkpoint; "": there is none.
  const std::string& checkpoint() const { return checkpoint_; }
  // Marks the checkpoint of `step` as not yet known to be finite: a failure meanwhile names an older one.
  void doubt_checkpoint(int64_t step) { doubted_step_ = step; }
  void trust_checkpoint() { doubted_step_.reset(); }
  void saved(const std::string& path, int64_t step);
  // Another rank has saved `step`, before this process was there.
  void was_saved(int64_t step) { checkpoint_ = join_path(folder_.checkpoints(), checkpoint_name(step)); }
  // Removes all but the newest `keep` checkpoints, leftovers of dead processes included. Called after a step with a
  // finite loss that started from the newest checkpoint: finite weights alone do not prove it good. settle() does the
  // same at the end of a process without that proof.
  void confirm(int64_t keep, Recorder& recorder);
  void settle(int64_t keep, Recorder& recorder);

  // The run goes on after `step` at the latest: set_aside_after(), and checkpoint() is the newest that is left. Collective.
  void go_back_after(Group& group, int64_t step, Recorder& recorder);

  void begin();  // from here on this process writes its report
  std::string last_report() const { return last_report_name(env_, folder_.path); }
  void trains() { is_new_ = false; }  // the folder is kept even if the run fails
  // Rewrites the report to show that the run is alive and at which step; at most once a second.
  void renew(TrainReport& report, Recorder& recorder);
  // Records an error of this or another rank; throws nothing. Removes the folder if it is new.
  void failed(const std::string& reason, TrainReport& report, std::optional<Recorder>& recorder);
  // The same error with the last good checkpoint added to its text.
  NotFinite with_checkpoint(const NotFinite& error) const;
  // For a run whose steps are all done: tells the user, and returns the last process's report, which stays as it is.
  TrainReport idle_report(const TrainState& state, int64_t steps, int ranks, Recorder& recorder);

 private:
  void record(int64_t step);
  void tell(const std::vector<std::string>& stuck, Recorder& recorder);

  Env& env_;
  RunFolder folder_;
  bool is_first_, is_launched_;
  std::optional<FolderLock> lock_;
  bool is_new_ = false, is_begun_ = false;
  std::string checkpoint_;
  std::optional<LayoutChange> layout_change_;
  bool is_unproven_ = true;  // no step with a finite loss was made from checkpoint_
  std::optional<int64_t> doubted_step_;
  double renewed_at_ = 0.0;
  std::vector<std::string> stuck_;  // what could not be removed at the start, until a recorder is there
  std::set<std::string> told_;      // warnings already given
};

}  // namespace athanor::run
