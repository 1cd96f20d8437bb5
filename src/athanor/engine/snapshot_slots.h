// This rank's state in the slots of a snapshot (checkpoint/format/slots.h): after a kill, or a step that broke off,
// one of them has all of a step that was done.
//
//   SnapshotSlots slots(plan, arena, memory, identity);
//   Training training(config, layout, groups, arena, {.slots = &slots});
//   training.allocate();                        // and its values are set
//   training.role->publish(state);
//   training.keep_first(state);                 // whole from here on
//   training.role->step(state, next_batch);     // begin() before the update, commit() after it (engine/step.h)
//
// Mode `slots`: masters and optimizer state that are in memory as f32 lie in the slots; an update reads one slot and writes
// the other (autograd/state_home.h). All else is updated in place and copied. Mode `copy`: everything is; a thread of its
// own copies while the next step computes, every `every_steps` steps, and a kill in that time finds the snapshot before.
//
// Memory: Category::snapshot; on the null device without memory behind it. Errors: those of SlotWriter. Thread rule: one
// thread.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/state_home.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/slots.h"
#include "athanor/engine/param_slices.h"
#include "athanor/engine/snapshot_mode.h"
#include "athanor/engine/state.h"

namespace athanor::engine {

struct SnapshotTensor {
  SlotTensor slot;
  bool out_of_place = false;
};

// What the slots of a rank will be.
struct SnapshotPlan {
  SnapshotMode mode = SnapshotMode::off;
  int64_t every_steps = 1;              // of `copy`
  int num_slots = 2;                    // 3: one can be pinned
  std::vector<SnapshotTensor> tensors;  // Training::snapshot_tensors()
  std::string own;                      // Training::prefix()

  std::vector<SlotTensor> slots() const;
  uint64_t size_bytes() const;  // of all slots; 0: none are kept
};

// A slot whose step is whole, and in which a training goes on.
struct ResumedSlot {
  int slot;
  TrainState state;
};

class SnapshotSlots final : public StateHome {
 public:
  // `memory`: zeroed, of plan.size_bytes(); null on the null device. With `resumed` it has slots of this run, layout, rank
  // and list: values() has those of that step, and no first snapshot is taken.
  SnapshotSlots(SnapshotPlan plan, Arena& arena, const std::shared_ptr<std::byte>& memory,
                const SlotIdentity& identity, const std::optional<ResumedSlot>& resumed = {});
  ~SnapshotSlots() override;

  // StateHome
  int find(const std::string& name) const override;
  Tensor values(int tensor) override;
  Destination next(int tensor) override;
  void carry_over(int tensor, const Tensor& values) override;

  void hold(std::vector<StateTensor> state);  // in the order of the list
  bool has_a_step() const { return newest_ >= 0; }
  void begin(int64_t step);  // before the first value changes
  // The step is whole. `masters_changed`: after the update, by an outer step.
  void commit(const TrainState& state, bool masters_changed = false);

  // Of the steps that are whole, the newest first: TrainState and values, valid until the next begin().
  std::vector<int64_t> steps();
  int slot_of(int64_t step);
  // Mode `slots`: each step's block checksums are there, and checksum() is one over those of a tensor, of the newest step.
  bool has_checksums() const { return writer_.has_value() && !copies() && newest_ >= 0; }
  uint64_t checksum(size_t tensor) const;
  int64_t generation_of(int64_t step) { return writer_ ? writer_->generation(slot_of(step)) : 0; }
  bool is_out_of_place(const std::string& name) const { return find(name) >= 0; }
  // No later step is written into the slot of the newest one, until whoever holds the memory has read it. False: it has no
  // third slot, or one is pinned already. unpin() takes it back.
  bool pin() { return writer_ && writer_->pin(); }
  void unpin() {
    if (writer_) writer_->unpin();
  }
  std::optional<int64_t> pinned_step() const { return writer_ ? writer_->pinned_step() : std::nullopt; }
  TrainState state_of(int64_t step);
  std::vector<NamedTensor> tensors_of(int64_t step);

 private:
  bool copies() const { return plan_.mode == SnapshotMode::copy; }
  bool in_place(size_t tensor) const { return copies() || !plan_.tensors[tensor].out_of_place; }
  int begin_slot(int64_t step);
  Tensor part(const std::byte* data, size_t tensor) const;
  void copy_in_place(const std::function<bool(const StateTensor&)>& is_due, bool together);
  void copy_elsewhere(size_t tensor);
  void take_checksums(const std::string& prefix);  // of the tensors out of place whose names begin so

  SnapshotPlan plan_;
  Arena& arena_;
  std::unordered_map<std::string, int> numbers_;  // of the tensors out of place
  std::shared_ptr<Storage> storage_;
  std::optional<SlotWriter> writer_;  // none on the null device
  std::vector<StateTensor> state_;
  int writing_ = -1, newest_ = -1;                             // slots; -1: none
  std::array<std::optional<TrainState>, kMostSlots> whole_{};  // what each slot holds
  std::future<void> copying_;
};

}  // namespace athanor::engine
