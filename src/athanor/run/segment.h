// A Segment of a run: one phase on one world, with one layout and the engine that trains in it, from a commit point to
// another one.
//
//   Segment segment(run, world, run.phase(), plan, /*name=*/"");
//   segment.build(snapshot);                           // engine, values and optimizer state
//   if (segment.train() == Segment::End::phase) next = segment.snapshot();
//
// A segment starts from run.state and the values that go with it: those of the segment before it (a snapshot), of a
// checkpoint, or initial ones. It is bitwise what a fresh process started from them would be. A step that is done stands in
// the metrics, whatever fails after it. Errors: those of the engine and the group; NotFinite naming step and tensor.
// Thread rule: one thread per rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/snapshot.h"
#include "athanor/data/batch.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/engine/replicas/state_hashes.h"
#include "athanor/engine/setup.h"
#include "athanor/run/run.h"
#include "athanor/run/step_metrics.h"
#include "athanor/run/tuning/tuner.h"

namespace athanor::run {

// A step in slots in which the next segment goes on: in the same memory, where its layout is the same.
struct SlotsInPlace {
  std::shared_ptr<std::byte> memory;
  uint64_t size_bytes;
  int slot;  // that holds the step
  std::string layout;

  SlotReader reader() const;  // reads and verifies it; Error where it is not whole
};
std::string identity_of(const Layout& layout);

// Whether any rank was asked to stop; the same answer on all ranks. Collective.
bool is_asked_to_stop(const TrainIo& io, Group& group);

class Segment {
 public:
  // Of the run; of the phase but not of the run; before a setting changes; on request; for steps that are undone: back_to().
  enum class End { done, phase, settings, interrupted, back };

  // `plan`: the segment's layout and its slots. `name`: of its groups, unlike those of segments in the same world; "": the
  // first one.
  Segment(Run& run, World& world, const RunPhase& phase, const MemoryPlan& plan, const std::string& name);
  const Training& engine() const { return *training_; }
  bool is_built() const { return is_built_; }  // its values are those of run.state

  // Both null: the first segment of this process, from a checkpoint or afresh.
  void build(const Snapshot* snapshot, const SlotsInPlace* slots = nullptr);
  // Evaluates before the first step, where the config asks for it.
  void evaluate_first();
  End train();
  int64_t back_to() const { return back_to_; }  // the step after which the run goes on
  Snapshot snapshot() const;
  // The steps of which this rank has all, each with the generation that has it: of its live values, and of its slots.
  std::vector<HeldPart> held() const;
  Snapshot go_back_to(int64_t step);  // one of them; run.state is that step's then
  // Its slots, where one of them holds that step of that generation and their memory outlives the process.
  std::optional<SlotsInPlace> slots_of(const CommonStep& common) const;

 private:
  void open_slots(const SlotsInPlace* resumed);
  Snapshot snapshot_of(std::vector<NamedTensor> tensors) const;
  bool serves() const { return layout_.is_server(group_.rank()); }
  Group& peers() { return *groups_.role; }  // all workers, or all servers
  void load_values(const Snapshot* snapshot);
  void resume_in_place(const SlotsInPlace& slots);
  End end() const;
  void check_state(const std::string& what);
  void check_step(const StepResult& result, const StepMetrics& metrics);
  void measure_peak();
  bool validate_now(int64_t max_tokens, StepMetrics* metrics);  // false: given up, there is no result
  void write_samples();
  void save(bool is_last);  // the ranks write, and wait for it
  void save_due();          // or whoever holds their slots writes while they train on
  void hand_over();
  std::vector<TextFile> files_beside() const;  // of a checkpoint
  void save_first();                           // as the operator asked
  // After a step that was not done: whether this segment can run it again.
  bool may_run_again(const StepResult& undone, const std::vector<DamagedToken>& damage);
  std::string quarantine(const std::vector<DamagedToken>& damage);
  std::string run_again_or_end(const std::string& not_finite);
  void tell_transient();  // a step that was run again is finite
  Guards::Verdict ask_guards(const StepResult& result, const StepMetrics& metrics);
  // Whether replicas hold the same bits, as far as guard.state_hash acts on it: else back_to() is where they did.
  bool states_agree();
  // Until what the next step reads has come, of texts without end. Collective.
  enum class Data : uint8_t { there, ended, asked_to_stop };
  Data wait_for_data(const BatchReader& reader);
  End end_with_data(const BatchReader& reader);
  End run_steps();
  End serve();

  Run& run_;
  const RunPhase& phase_;
  const Config& config_;  // of the phase
  int64_t last_step_;     // of the segment: that of the phase, or the one before a setting changes
  std::unique_ptr<World>
      own_world_;  // the world under the phase's name, so that its groups have names of their own
  std::unique_ptr<World> device_world_;  // groups between devices; null on the CPU
  World& world_;
  Group& group_;  // all ranks
  const Layout layout_;
  Groups groups_;
  const SnapshotPlan slots_plan_;
  Tuner tuner_;
  std::optional<PushLog> pushes_;  // on a server, unless consistency is "sync"
  std::shared_ptr<std::byte> slots_memory_;
  std::unique_ptr<SnapshotSlots> slots_;  // null: no snapshots
  std::unique_ptr<Training> training_;
  std::optional<StateHashes> hashes_;
  bool is_built_ = false, told_disagreement_ = false;
  bool doubts_memory_ = false;  // of its snapshots only what is verified is good
  int64_t back_to_ = 0;
};

}  // namespace athanor::run
