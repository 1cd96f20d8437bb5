#include "athanor/engine/snapshot_slots.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "athanor/base/block_checksum.h"
#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::engine {
namespace {

constexpr uint64_t kBlocksPerTask = 16;  // a mebibyte: much more than it costs to hand out a task

struct CopyTask {
  size_t tensor;
  const void* values;
  uint64_t first, last;  // blocks
};

}  // namespace

std::vector<SlotTensor> SnapshotPlan::slots() const {
  std::vector<SlotTensor> slots;
  for (const SnapshotTensor& tensor : tensors) slots.push_back(tensor.slot);
  return slots;
}

uint64_t SnapshotPlan::size_bytes() const {
  return mode == SnapshotMode::off ? 0 : snapshot_bytes(slots(), kStateBytes, num_slots);
}

SnapshotSlots::SnapshotSlots(SnapshotPlan plan, Arena& arena, const std::shared_ptr<std::byte>& memory,
                             const SlotIdentity& identity, const std::optional<ResumedSlot>& resumed)
    : plan_(std::move(plan)), arena_(arena) {
  for (size_t i = 0; i < plan_.tensors.size(); ++i)
    if (!in_place(i)) numbers_[plan_.tensors[i].slot.name] = static_cast<int>(i);
  const uint64_t size_bytes = plan_.size_bytes();
  if (arena.queue().device() == Device::null) {
    storage_ = arena.allocate_shareable(size_bytes, Category::snapshot);
  } else {
    const std::span bytes(memory.get(), size_bytes);
    if (resumed)
      writer_.emplace(bytes, plan_.slots(), identity, kStateBytes, resumed->slot);
    else
      writer_.emplace(bytes, plan_.slots(), identity, kStateBytes);
    storage_ = arena.adopt(memory, size_bytes, Category::snapshot);
  }
  if (resumed) {
    newest_ = resumed->slot;
    whole_[static_cast<size_t>(newest_)] = resumed->state;
    return;
  }
  if (!copies()) begin(0);  // the slot in which the first values are set
}

SnapshotSlots::~SnapshotSlots() {
  if (copying_.valid()) copying_.wait();
}

Tensor SnapshotSlots::part(const std::byte* data, size_t tensor) const {
  const SlotTensor& slot = plan_.tensors[tensor].slot;
  return {storage_, data == nullptr ? 0 : static_cast<uint64_t>(data - storage_->data()), Shape{slot.numel()},
          slot.dtype};
}

int SnapshotSlots::find(const std::string& name) const {
  const auto found = numbers_.find(plan_.own + name);
  return found == numbers_.end() ? -1 : found->second;
}

Tensor SnapshotSlots::values(int tensor) {
  if (newest_ >= 0 && writing_ < 0) {
    const auto i = static_cast<size_t>(tensor);
    return part(writer_->held(newest_, i), i);
  }
  Tensor values = next(tensor).tensor;
  fill_zero(values);
  return values;
}

Destination SnapshotSlots::next(int tensor) {
  const auto i = static_cast<size_t>(tensor);
  if (!writer_) return {.tensor = part(nullptr, i), .checksums = nullptr};
  return {.tensor = part(writer_->data(i), i), .checksums = writer_->checksums(i)};
}

void SnapshotSlots::carry_over(int tensor, const Tensor& values) {
  if (writer_) writer_->copy(static_cast<size_t>(tensor), values.raw());
}

void SnapshotSlots::hold(std::vector<StateTensor> state) {
  check(state.size() == plan_.tensors.size(), "snapshot: got {} tensors, expected {}", state.size(),
        plan_.tensors.size());
  for (size_t i = 0; i < state.size(); ++i)
    check(state[i].name == plan_.tensors[i].slot.name && state[i].boxes == plan_.tensors[i].slot.boxes,
          "snapshot: got a part of '{}', expected the planned part of '{}'", state[i].name,
          plan_.tensors[i].slot.name);
  state_ = std::move(state);
  if (newest_ < 0) take_checksums("");
}

int SnapshotSlots::begin_slot(int64_t step) {
  const int slot = writer_ ? writer_->begin(step) : newest_ == 0 ? 1 : 0;
  whole_[static_cast<size_t>(slot)].reset();
  return slot;
}

void SnapshotSlots::begin(int64_t step) {
  if (copying_.valid()) copying_.get();
  if (!copies()) writing_ = begin_slot(step);
}

// Values that are not in memory as f32 (8-bit state).
void SnapshotSlots::copy_elsewhere(size_t tensor) {
  const StateTensor& kept = state_[tensor];
  if (!writer_) return kept.kept.read(0, kept.numel(), nullptr);
  auto* values = reinterpret_cast<float*>(writer_->data(tensor));
  kept.kept.read(0, kept.numel(), values);
  writer_->take_checksums(tensor);
}

// `together`: on all threads of the queue.
void SnapshotSlots::copy_in_place(const std::function<bool(const StateTensor&)>& is_due, bool together) {
  std::vector<CopyTask> tasks;
  for (size_t i = 0; i < plan_.tensors.size(); ++i) {
    const Tensor& values = state_[i].kept.tensor;
    if (!in_place(i) || !values.defined() || !is_due(state_[i])) continue;
    const uint64_t blocks = num_checksum_blocks(plan_.tensors[i].slot.size_bytes());
    for (uint64_t first = 0; first < blocks; first += kBlocksPerTask)
      tasks.push_back({i, values.raw(), first, std::min(blocks, first + kBlocksPerTask)});
  }
  const auto run = [this](const CopyTask& task) {
    writer_->copy(task.tensor, task.values, task.first, task.last);
  };
  if (!together) {
    std::for_each(tasks.begin(), tasks.end(), run);
    return;
  }
  arena_.queue().parallel_for(static_cast<int64_t>(tasks.size()),
                              [&](int64_t i) { run(tasks[static_cast<size_t>(i)]); });
}

void SnapshotSlots::take_checksums(const std::string& prefix) {
  if (!writer_) return;
  arena_.queue().parallel_for(static_cast<int64_t>(plan_.tensors.size()), [&](int64_t i) {
    const auto tensor = static_cast<size_t>(i);
    if (!in_place(tensor) && plan_.tensors[tensor].slot.name.starts_with(prefix))
      writer_->take_checksums(tensor);
  });
}

void SnapshotSlots::commit(const TrainState& state, bool masters_changed) {
  if (copies()) {
    if (newest_ >= 0 && state.step % plan_.every_steps != 0) return;
    writing_ = begin_slot(state.step);
  }
  for (size_t i = 0; i < plan_.tensors.size(); ++i)
    if (in_place(i) && !state_[i].kept.tensor.defined()) copy_elsewhere(i);
  if (masters_changed) take_checksums(plan_.own + "model.");
  // What changes already in the passes of the next step cannot wait.
  const auto now = [this](const StateTensor& part) { return !copies() || part.changes_in_passes; };
  if (writer_) copy_in_place(now, /*together=*/true);
  const int slot = std::exchange(writing_, -1);
  const auto finish = [this, slot, state, now] {
    if (writer_ && copies())
      copy_in_place([now](const StateTensor& part) { return !now(part); }, /*together=*/false);
    if (writer_) writer_->commit(state.to_json());
    whole_[static_cast<size_t>(slot)] = state;
    newest_ = slot;
  };
  if (copies() && writer_)
    copying_ = std::async(std::launch::async, finish);
  else
    finish();
}

uint64_t SnapshotSlots::checksum(size_t tensor) const {
  const std::span<const uint64_t> blocks = writer_->held_checksums(newest_, tensor);
  return hash64(blocks.data(), blocks.size_bytes());
}

std::vector<int64_t> SnapshotSlots::steps() {
  if (copying_.valid()) copying_.get();
  std::vector<int64_t> steps;
  for (const auto& state : whole_)
    if (state) steps.push_back(state->step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

int SnapshotSlots::slot_of(int64_t step) {
  const std::vector<int64_t> whole = steps();
  for (int slot = 0; slot < plan_.num_slots; ++slot)
    if (whole_[static_cast<size_t>(slot)] && whole_[static_cast<size_t>(slot)]->step == step) return slot;
  fail("snapshot: got step {}, expected one that is whole: {}", step, fmt::join(whole, ", "));
}

TrainState SnapshotSlots::state_of(int64_t step) {
  return *whole_[static_cast<size_t>(slot_of(step))];
}

std::vector<NamedTensor> SnapshotSlots::tensors_of(int64_t step) {
  const int slot = slot_of(step);
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < plan_.tensors.size(); ++i) {
    StateTensor held = state_[i];
    held.kept = {part(writer_->held(slot, i), i)};
    add_slices(tensors, held);
  }
  return tensors;
}

}  // namespace athanor::engine
