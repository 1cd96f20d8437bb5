#include "athanor/launch/slot_saver.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <future>

#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/checkpoint/format/slot_reader.h"
#include "athanor/checkpoint/format/slots.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::slot_saver_test {
namespace {

constexpr uint64_t kCapacity = 64;
const std::vector<SlotTensor> kTensors = {{"w", Dtype::f32, {5}, {whole_box({5})}}};

// The slots of one rank behind a descriptor, pinned at a step.
struct Pinned {
  Pinned()
      : size_bytes(snapshot_bytes(kTensors, kCapacity, 3)),
        fd(create_shared_memory("slots", size_bytes)),
        memory(map_shared_memory(size_bytes, fd.get())),
        slots({memory.get(), size_bytes}, kTensors, {.run = "run", .layout = "layout"}, kCapacity) {}
  void pin(int64_t step) {
    const float values[5] = {1, 2, 3, 4, static_cast<float>(step)};
    slots.begin(step);
    slots.copy(0, values);
    slots.commit("{}");
    ASSERT_TRUE(slots.pin());
  }
  bool is_pinned() const { return slots.pinned_step().has_value(); }
  uint64_t size_bytes;
  Descriptor fd;
  std::shared_ptr<std::byte> memory;
  SlotWriter slots;
};

Persisted next_of(SlotSaver& saver) {
  for (;;) {
    if (auto saved = saver.take()) return *saved;
    pollfd polled{saver.fd(), POLLIN, 0};
    poll(&polled, 1, -1);
  }
}

// Its files wait to be created until they may.
class HeldEnv : public FaultEnv {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    may_.get_future().wait();
    may_ = std::promise<void>();
    may_.set_value();
    return FaultEnv::create(path);
  }
  void release() { may_.set_value(); }

 private:
  std::promise<void> may_;
};

TEST(SlotSaver, WritesAndReleasesThePins) {
  const TemporaryFolder folder;
  SlotSaver saver(system_env());
  Pinned rank;
  for (const int64_t step : {4, 9}) {
    rank.pin(step);
    const std::string path = folder.path("step_") + std::to_string(step);
    saver.start({.path = path, .step = step}, {rank.fd.get()});
    EXPECT_EQ(next_of(saver), (Persisted{.step = step, .path = path}));
    EXPECT_FALSE(saver.is_busy());
    EXPECT_FALSE(rank.is_pinned());
    const std::string file = path + "/manifest.json";
    EXPECT_EQ(parse_manifest(system_env().read_text(file), file).step, step);
  }
  EXPECT_EQ(saver.take(), std::nullopt);
}

TEST(SlotSaver, ASecondOneIsRefusedAndTheFirstGoesOn) {
  const TemporaryFolder folder;
  HeldEnv env;
  SlotSaver saver(env);
  Pinned rank, other;
  rank.pin(4);
  other.pin(5);
  saver.start({.path = folder.path("step_4"), .step = 4}, {rank.fd.get()});
  EXPECT_TRUE(saver.is_busy());
  EXPECT_EQ(saver.step(), 4);
  saver.start({.path = folder.path("step_5"), .step = 5}, {other.fd.get()});
  EXPECT_EQ(next_of(saver).error, "the checkpoint of step 4 is still being written");
  EXPECT_FALSE(other.is_pinned());
  EXPECT_TRUE(rank.is_pinned());
  EXPECT_TRUE(saver.is_busy());
  env.release();
  EXPECT_EQ(next_of(saver), (Persisted{.step = 4, .path = folder.path("step_4")}));
}

TEST(SlotSaver, AFullDiskIsToldAndTheNextOneIsWritten) {
  const TemporaryFolder folder;
  FaultEnv env(2);
  SlotSaver saver(env);
  Pinned rank;
  rank.pin(4);
  saver.start({.path = folder.path("step_4"), .step = 4}, {rank.fd.get()});
  EXPECT_EQ(next_of(saver).error, "injected fault");
  EXPECT_FALSE(rank.is_pinned());
  EXPECT_TRUE(system_env().list(folder.path("")).empty());
  rank.pin(5);
  saver.start({.path = folder.path("step_5"), .step = 5}, {rank.fd.get()});
  EXPECT_EQ(next_of(saver).error, "");
}

TEST(SlotSaver, EndsWithAllThatItHasBegun) {
  const TemporaryFolder folder;
  Pinned rank;
  rank.pin(4);
  {
    SlotSaver saver(system_env());
    saver.start({.path = folder.path("step_4"), .step = 4}, {rank.fd.get()});
  }
  EXPECT_TRUE(system_env().exists(folder.path("step_4/manifest.json")));
  Pinned again;
  again.pin(5);
  release_slots({again.fd.get(), create_shared_memory("none", 0)});
  EXPECT_FALSE(again.is_pinned());
}

}  // namespace
}  // namespace athanor::tests::slot_saver_test
