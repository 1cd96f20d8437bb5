// The segments of a run, one after the other, in all the worlds that the rendezvous gives. In each world the ranks settle
// what they are to agree on, whether they were there before or have just joined: settings, data, memory, and the state
// to go on from. That is the newest step of which they together have all parts in memory (checkpoint/snapshot.h), else the
// newest checkpoint's, else a fresh one.
//
//   SegmentChain chain(config, rendezvous, io);
//   const TrainReport report = chain.train();
//
// A group that breaks leads to the next world, where there is one. Errors: those of train() (trainer.h). Thread rule: one
// thread per rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/snapshot.h"
#include "athanor/run/left_slots.h"
#include "athanor/run/rendezvous.h"
#include "athanor/run/run.h"
#include "athanor/run/segment.h"
#include "athanor/run/tuning/fit.h"

namespace athanor::run {

class SegmentChain {
 public:
  SegmentChain(const Config& config, Rendezvous& rendezvous, const TrainIo& io);

  TrainReport train();
  std::optional<Run>& run() { return run_; }  // none: nothing was settled yet

 private:
  // From what the next segment starts.
  struct Kept {
    std::optional<StatePart> part =
        {};  // that this rank has held itself; none: what it holds are slots of others
    SnapshotHead head = {};
    Snapshot snapshot = {};                     // unless
    std::optional<SlotsInPlace> in_place = {};  // all ranks go on in the slots that they have
  };

  bool meet(const std::string& why);      // false: there is no other world
  std::optional<TrainReport> assemble();  // a report: there is nothing to train
  void agree_on_run();
  // Whether the ranks have a state in memory; then it is the run's, and the next segment starts from it.
  bool has_common_state(const std::vector<Layout>& layouts);
  std::optional<SlotsInPlace> own_slots(const CommonStep& common, const std::vector<Layout>& layouts) const;
  bool keeps(const CommonStep& common) const;  // in kept_
  void keep_copy(const CommonStep& common);
  void forget_state();  // what this process has of it in memory
  std::vector<HeldPart> held() const;
  void begin();
  void go_back();          // the segment has ended so
  void change_settings();  // likewise
  void note_layout();      // where it adds in another order than that of the world before
  void follow_settings();  // of the next segment, with the plan that goes with them
  void set_as_asked();     // Meeting::set
  MemoryPlan& plan_of(const RunPhase& phase);
  Fit fit_of_phase(const Config& config);  // of the next step
  void share_going_back();
  void show_header(const MemoryPlan& plan);
  TrainReport finish(Segment::End end);

  const Config config_;
  Rendezvous& rendezvous_;
  const TrainIo& io_;
  std::optional<Meeting> meeting_;
  std::vector<std::unique_ptr<World>> fronts_;  // as long as anything uses them
  std::optional<Run> run_;
  std::vector<LeftSlots> left_;
  std::vector<MemoryPlan> plans_;  // of each phase
  std::unique_ptr<Segment> segment_;
  std::optional<StatePart> part_;  // of the segment's values
  std::optional<Kept> kept_;       // none: the segment starts from a checkpoint, or afresh
  std::string order_of_sums_;      // of the newest segment
  bool is_assembled_ = false, is_shown_ = false;
  int num_again_ = 0;               // segments of the same phase in this world
  std::optional<int64_t> back_to_;  // a step that the run is to go on after, until it does
};

}  // namespace athanor::run
