// A run's folder in the hands of the process that trains it: the lock, the checkpoint to go on from, which checkpoints stay,
// and what report.json says while the process lives and when it fails.
//
//   RunKeeper keeper(env, RunFolder(config), group);
//   keeper.take();                                   // rank 0 locks the folder; then all ranks open their recorders
//   if (auto state = keeper.find_state(config, identity, recorder)) ... load keeper.checkpoint() ...
//   keeper.saved(path, step);                        // behind each save
//   keeper.confirm(keep, recorder);                  // behind each step that went well
//
// Every method may be called on every rank; rank 0 alone writes. Errors: Error for a run that another process trains, that
// cannot go on or lost its checkpoints; IoError of the Env. Thread rule: one thread.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "athanor/comm/group.h"
#include "athanor/config/config.h"
#include "athanor/train/finite.h"
#include "athanor/train/recorder.h"
#include "athanor/train/run_history.h"
#include "athanor/train/state.h"

namespace athanor {

class RunKeeper {
 public:
  RunKeeper(Env& env, const RunFolder& folder, Group& group)
      : env_(env), folder_(folder), group_(group), is_first_(group.rank() == 0) {}

  void take();
  // The state of the newest checkpoint; none: the run begins. Says what became of the process before.
  std::optional<TrainState> find_state(const Config& config, const std::string& data_identity,
                                       Recorder& recorder);
  const std::string& checkpoint() const {
    return checkpoint_;
  }  // newest whole and finite one; "": there is none
  // For the while in which it is not known to be finite: then an older one is the last.
  void doubt_checkpoint(int64_t step) { doubted_step_ = step; }
  void trust_checkpoint() { doubted_step_.reset(); }
  void saved(const std::string& path, int64_t step);
  // Removes what is too old, also where a process died before this, once a step after the newest checkpoint had a finite
  // loss: that its weights are finite does not say so. At the end of a process without waiting for it: settle().
  void confirm(int64_t keep, Recorder& recorder);
  void settle(int64_t keep, Recorder& recorder);

  // From here on the report is this process's.
  void begin() { is_begun_ = true; }
  void trains() { is_new_ = false; }  // the folder is worth keeping
  // That the run lives, and how far it is: at most once a second.
  void renew(TrainReport& report, Recorder& recorder);
  // After an error of this or another rank; throws nothing. A folder that is new goes.
  void failed(const std::string& reason, TrainReport& report, std::optional<Recorder>& recorder);
  // The same error with what is left of the run.
  NotFinite with_checkpoint(const NotFinite& error) const;
  // Of a run whose steps are all done, which is said: what its last process reported, which stays as it is.
  TrainReport idle_report(const TrainState& state, int64_t steps, int ranks, Recorder& recorder);

 private:
  void record(int64_t step);
  void tell(const std::vector<std::string>& stuck, Recorder& recorder);

  Env& env_;
  RunFolder folder_;
  Group& group_;
  bool is_first_;
  std::optional<FolderLock> lock_;
  bool is_new_ = false, is_begun_ = false;
  std::string checkpoint_;
  bool is_unproven_ = true;  // no step was made from it
  std::optional<int64_t> doubted_step_;
  double renewed_at_ = 0.0;
  std::vector<std::string> stuck_;  // at the start, until it can be told
  std::set<std::string> told_;      // what cannot be removed is said once
};

}  // namespace athanor
