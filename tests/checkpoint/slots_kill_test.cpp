// A process that commits steps is killed at some instant, 300 times: one slot is always whole, and at most one step old.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>

#include "athanor/base/clock.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/slot_reader.h"
#include "athanor/checkpoint/format/slots.h"
#include "athanor/comm/shm/forked_ranks.h"
#include "athanor/kernels/table.h"

namespace athanor::tests::slots_kill_test {
namespace {

constexpr uint64_t kCapacity = 256;

// What a child tells of itself in a page of its own.
struct Progress {
  std::atomic<int64_t> begun, committed;
};

SlotTensor whole_tensor(const std::string& name, int64_t count, Dtype dtype) {
  return {name, dtype, {count}, {whole_box({count})}};
}

std::string state_of(int64_t step) {
  return fmt::format(R"({{"step":{},"text":"{}"}})", step, std::string(static_cast<size_t>(step % 90), 'x'));
}

// The memory of a parent, and what its children do and leave there.
class Victim {
 public:
  explicit Victim(std::vector<SlotTensor> tensors)
      : tensors_(std::move(tensors)),
        size_bytes_(snapshot_bytes(tensors_, kCapacity)),
        slots_fd_(create_shared_memory("slots", size_bytes_)),
        progress_fd_(create_shared_memory("progress", kSharedUnit)),
        memory_(map_shared_memory(size_bytes_, slots_fd_)),
        progress_memory_(map_shared_memory(kSharedUnit, progress_fd_)),
        progress_(*reinterpret_cast<Progress*>(progress_memory_.get())) {}
  virtual ~Victim() {
    close(slots_fd_);
    close(progress_fd_);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  // Starts a child, kills it some time after its first commits, and examines what it left. Returns whether a slot is torn.
  bool kill_once(std::mt19937& random) {
    const int64_t first = progress_.committed.load();
    {
      comm::shm::ForkedRanks child(1, [&](int) { commit_for_ever(); });
      const int64_t commits = 1 + static_cast<int64_t>(random() % 3);
      while (progress_.committed.load() < first + commits && kill(child.pid(0), 0) == 0) sched_yield();
      const int64_t instant = now_ns() + static_cast<int64_t>(random() % static_cast<uint64_t>(2 * step_ns_));
      while (now_ns() < instant) {
      }
      kill(child.pid(0), SIGKILL);
      EXPECT_EQ(child.outcome(0), "signal 9");
    }
    return examine();
  }
  void set_step_ns(int64_t ns) { step_ns_ = ns; }

 protected:
  virtual void write_first(SlotWriter& writer) = 0;
  virtual void write_next(SlotWriter& writer, int64_t step) = 0;
  virtual void expect_contents(const SlotReader& slot) = 0;
  const std::vector<SlotTensor>& tensors() const { return tensors_; }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  std::span<std::byte> slots() const { return {memory_.get(), size_bytes_}; }

  void commit_for_ever() {
    // A mapping of its own, as a process that was given the descriptor has.
    memory_ = map_shared_memory(size_bytes_, slots_fd_);
    SlotWriter writer({memory_.get(), size_bytes_}, tensors_, {.run = "run", .layout = "layout"}, kCapacity);
    if (!writer.committed_step()) {
      writer.begin(0);
      write_first(writer);
      writer.commit(state_of(0));
    }
    for (int64_t step = *writer.committed_step() + 1;; ++step) {
      progress_.begun.store(step);
      writer.begin(step);
      write_next(writer, step);
      writer.commit(state_of(step));
      progress_.committed.store(step);
    }
  }

  bool examine() {
    std::vector<SlotFinding> findings;
    const auto newest = SlotReader::newest(slots(), {.run = "run", .layout = "layout", .rank = 0}, &findings);
    EXPECT_TRUE(newest) << findings[0].reason << "; " << findings[1].reason;
    if (!newest) return false;
    const int64_t begun = progress_.begun.load(), committed = progress_.committed.load();
    EXPECT_TRUE(newest->step() == committed || newest->step() == begun)
        << "step " << newest->step() << " of " << committed << " committed and " << begun << " begun";
    EXPECT_LE(begun - newest->step(), 1);
    EXPECT_EQ(newest->state(), state_of(newest->step()));
    expect_contents(*newest);
    int torn = 0;
    for (const SlotFinding& finding : findings) {
      EXPECT_TRUE(finding.state == SlotState::whole || finding.state == SlotState::torn) << finding.reason;
      torn += finding.state == SlotState::torn ? 1 : 0;
    }
    EXPECT_LE(torn, 1);
    return torn > 0;
  }

  std::vector<SlotTensor> tensors_;
  uint64_t size_bytes_;
  int slots_fd_, progress_fd_;
  std::shared_ptr<std::byte> memory_, progress_memory_;
  Progress& progress_;
  int64_t step_ns_ = 300'000;
};

// Every byte of a tensor tells its step and its place.
unsigned char byte_of(int64_t step, size_t tensor, size_t at) {
  return static_cast<unsigned char>(static_cast<size_t>(step) * 37 + tensor * 101 + at * 13 + at / 251);
}

// State that changes in place and is copied.
class Copying : public Victim {
 public:
  Copying()
      : Victim({whole_tensor("w", 50001, Dtype::f32), whole_tensor("codes", 66001, Dtype::u8),
                whole_tensor("count", 1, Dtype::i64)}) {}

 private:
  void write_first(SlotWriter& writer) override { write_next(writer, 0); }
  void write_next(SlotWriter& writer, int64_t step) override {
    for (size_t i = 0; i < tensors().size(); ++i) {
      std::vector<unsigned char> bytes(tensors()[i].size_bytes());
      for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = byte_of(step, i, at);
      writer.copy(i, bytes.data());
    }
  }
  void expect_contents(const SlotReader& slot) override {
    for (size_t i = 0; i < tensors().size(); ++i) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(slot.data(slot.tensors()[i]));
      size_t wrong = 0;
      for (size_t at = 0; at < tensors()[i].size_bytes(); ++at)
        wrong += bytes[at] != byte_of(slot.step(), i, at) ? 1 : 0;
      EXPECT_EQ(wrong, 0u) << tensors()[i].name << " at step " << slot.step();
    }
  }
};

// State that the optimizer reads in one slot and writes into the other: each step adds 1 to the master, exactly.
class Updating : public Victim {
 public:
  explicit Updating(int64_t count)
      : Victim({whole_tensor("master", count, Dtype::f32), whole_tensor("sgd.m", count, Dtype::f32)}) {}

 private:
  static float start(size_t i) { return static_cast<float>(i % 1000); }

  void write_first(SlotWriter& writer) override {
    const auto count = static_cast<size_t>(tensors()[0].numel());
    std::vector<float> master(count), m(count, 1.0f);
    for (size_t i = 0; i < count; ++i) master[i] = start(i);
    writer.copy(0, master.data());
    writer.copy(1, m.data());
  }
  void write_next(SlotWriter& writer, int64_t) override {
    if (!queue_) {
      queue_ = make_cpu_queue(nullptr, best_isa());
      arena_ = std::make_unique<Arena>(*queue_);
      grad_ = empty(*arena_, tensors()[0].shape, Dtype::f32, Category::gradients);
      std::fill_n(grad_.data<float>(), grad_.numel(), 1.0f);
      storage_ = arena_->adopt(memory(), size_bytes(), Category::snapshot);
    }
    const SgdTensors update{.master = tensor_at(writer.committed(0)),
                            .m = tensor_at(writer.committed(1)),
                            .value = {},
                            .grad = grad_,
                            .weight_decay = 0.0f,
                            .to_master = {tensor_at(writer.data(0)), writer.checksums(0)},
                            .to_m = {tensor_at(writer.data(1)), writer.checksums(1)}};
    queue_->table().optimizer.sgd(*queue_, {&update, 1}, {.lr = -1.0f, .momentum = 0.0f, .grad_scale = 1.0f});
  }
  Tensor tensor_at(const std::byte* data) {
    return {storage_, static_cast<uint64_t>(data - storage_->data()), tensors()[0].shape, Dtype::f32};
  }
  void expect_contents(const SlotReader& slot) override {
    const auto* master = reinterpret_cast<const float*>(slot.data(slot.tensors()[0]));
    size_t wrong = 0;
    for (size_t i = 0; i < static_cast<size_t>(tensors()[0].numel()); ++i)
      wrong += master[i] != start(i) + static_cast<float>(slot.step()) ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "at step " << slot.step();
  }

  std::unique_ptr<Queue> queue_;  // of a child
  std::unique_ptr<Arena> arena_;
  Tensor grad_;
  std::shared_ptr<Storage> storage_;
};

void expect_survives(Victim& victim, int kills, uint32_t seed) {
  std::mt19937 random(seed);
  int torn = 0;
  for (int i = 0; i < kills; ++i) {
    SCOPED_TRACE(fmt::format("kill {}", i));
    torn += victim.kill_once(random) ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(torn, 0) << "no kill came within a step";
}

TEST(SlotsKill, CopiedStateIsWhole) {
  Copying victim;
  expect_survives(victim, 150, 1);
}

TEST(SlotsKill, StateUpdatedOutOfPlaceIsWhole) {
  Updating victim(70000);
  expect_survives(victim, 120, 2);
}

// So large that it is streamed past the caches.
TEST(SlotsKill, StateStreamedPastTheCachesIsWhole) {
  Updating victim((int64_t{17} << 20) / 8 + 33);
  victim.set_step_ns(10'000'000);
  expect_survives(victim, 30, 3);
}

}  // namespace
}  // namespace athanor::tests::slots_kill_test
