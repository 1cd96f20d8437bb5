// A checkpoint out of the pinned slots of all ranks: the same bytes that the ranks write together, or none at all.
#include "athanor/checkpoint/format/persist.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/interrupted.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/slot_reader.h"
#include "athanor/checkpoint/format/slots.h"
#include "checkpoint/content.h"
#include "support/fault_env.h"
#include "support/power_env.h"

namespace athanor::tests::persist_test {
namespace {

constexpr uint64_t kCapacity = 300;
constexpr int kRanks = 3;
constexpr const char* kState = R"({"tokens":7,"step":4})";
const Shape kShape = {40, 301};
const std::vector<TextFile> kFiles = {{"config.resolved.toml", "[model]\n"},
                                      {"tokenizer.json", std::string("\0\n5 x\n\xff", 7)}};

// Rank `rank` holds a flat range of "w", in boxes, padded; and all of "shared".
std::vector<SlotTensor> held_by(int rank) {
  const int64_t part = kShape.numel() / kRanks, first = rank * part,
                last = rank + 1 == kRanks ? kShape.numel() : first + part;
  return {{"w", Dtype::f32, kShape, boxes_of(kShape, first, last), 5},
          {"shared", Dtype::f32, {33}, {whole_box({33})}}};
}

float value_of(const std::string& name, int64_t element, int64_t step) {
  return static_cast<float>(element) * 0.25f + static_cast<float>(name.size()) +
         static_cast<float>(step) * 1e4f;
}

std::vector<float> values_of(const SlotTensor& tensor, int64_t step) {
  std::vector<float> values;
  for (const Box& box : tensor.boxes)
    BoxRuns(tensor.shape, box).walk(0, box.extent.numel(), [&](int64_t, int64_t in_whole, int64_t count) {
      for (int64_t i = 0; i < count; ++i) values.push_back(value_of(tensor.name, in_whole + i, step));
    });
  values.resize(static_cast<size_t>(tensor.numel()), -1.0f);
  return values;
}

struct Rank {
  explicit Rank(int rank)
      : tensors(held_by(rank)),
        size_bytes(snapshot_bytes(tensors, kCapacity, 3)),
        memory(map_shared_memory(size_bytes)),
        slots({memory.get(), size_bytes}, tensors,
              {.run = "run", .layout = "layout", .rank = rank, .size = kRanks}, kCapacity) {}
  void step(int64_t number, const std::string& state = kState) {
    slots.begin(number);
    for (size_t i = 0; i < tensors.size(); ++i) slots.copy(i, values_of(tensors[i], number).data());
    slots.commit(state);
  }
  std::vector<SlotTensor> tensors;
  uint64_t size_bytes;
  std::shared_ptr<std::byte> memory;
  SlotWriter slots;
};

struct Job {
  Job() {
    for (int rank = 0; rank < kRanks; ++rank) {
      Rank& one = *ranks.emplace_back(std::make_unique<Rank>(rank));
      one.step(3);
      one.step(4);
      EXPECT_TRUE(one.slots.pin());
    }
  }
  std::vector<std::span<const std::byte>> memories() const {
    std::vector<std::span<const std::byte>> all;
    for (const auto& one : ranks) all.emplace_back(one->memory.get(), one->size_bytes);
    return all;
  }
  void persist(Env& env, const std::string& path, int64_t step = 4,
               const std::atomic<bool>* give_up = nullptr) const {
    persist_slots(env, {.path = path, .step = step, .files = kFiles}, memories(), give_up);
  }
  std::string refusal(const std::string& path, int64_t step = 4) const {
    try {
      persist(system_env(), path, step);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<std::unique_ptr<Rank>> ranks;
};

// What the ranks write of step 4 together.
void write_together(const std::string& folder) {
  run_ranks(make_thread_groups(kRanks), [&](Group& group) {
    Engine engine;
    std::vector<NamedTensor> tensors;
    for (const SlotTensor& slot : held_by(group.rank())) {
      const std::vector<float> values = values_of(slot, 4);
      int64_t first = 0;
      for (const Box& box : slot.boxes) {
        Tensor part = empty(engine.arena, box.extent, Dtype::f32, Category::activations);
        std::copy_n(values.data() + first, part.numel(), part.data<float>());
        tensors.push_back({.name = slot.name, .tensor = part, .whole = slot.shape, .offset = box.offset});
        first += part.numel();
      }
    }
    write_checkpoint(system_env(), group, folder,
                     {.step = 4, .state = kState, .tensors = tensors, .files = kFiles});
  });
}

std::string all_of(const std::string& folder) {
  std::string text;
  for (const std::string& name : system_env().list(folder))
    text += name + ":" + system_env().read_text(join_path(folder, name)) + "\n";
  return text;
}

TEST(Persist, HasTheBytesOfTheRanksOwnCheckpointWhileTheyTrainOn) {
  const TestFolder folder;
  write_together(folder.file("together"));
  Job job;
  for (const auto& one : job.ranks)
    for (const int64_t step : {5, 6, 7, 8}) one->step(step, "{}");
  job.persist(system_env(), folder.file("slots/step_00000004"));
  const std::string expected = all_of(folder.file("together/step_00000004"));
  EXPECT_TRUE(all_of(folder.file("slots/step_00000004")) == expected);
  EXPECT_GT(expected.size(), static_cast<size_t>(kShape.numel()) * sizeof(float));
  Checkpoint::open(system_env(), folder.file("slots/step_00000004")).verify();
}

TEST(Persist, AFaultLeavesTheWholeCheckpointOrNone) {
  for (const auto fault : {FaultEnv::Fault::kill, FaultEnv::Fault::once}) {
    const Job job;
    int64_t fail_at = 0, committed = 0;
    for (bool failed = true; failed; ++fail_at) {
      const TestFolder folder;
      FaultEnv env(fail_at, fault);
      try {
        job.persist(env, folder.file("step_00000004"));
      } catch (const IoError&) {
      }
      failed = env.failed();
      const bool arrived = system_env().exists(folder.file("step_00000004"));
      committed += arrived;
      if (arrived) Checkpoint::open(system_env(), folder.file("step_00000004")).verify();
      if (!arrived && fault == FaultEnv::Fault::once) {
        EXPECT_TRUE(system_env().list(folder.path()).empty()) << "call " << fail_at;
      }
      // The next one gets through, and cleans up.
      job.persist(system_env(), folder.file("step_00000004"));
      EXPECT_EQ(system_env().list(folder.path()), std::vector<std::string>{"step_00000004"});
    }
    EXPECT_GT(fail_at, 15);
    EXPECT_GE(committed, 2);
  }
}

TEST(Persist, APowerCutAtAnyPointLeavesTheWholeCheckpointOrNone) {
  const Job job;
  int64_t cut_at = 0, committed = 0;
  for (bool failed = true; failed; ++cut_at) {
    const TestFolder folder;
    PowerEnv env(folder.path(), cut_at);
    try {
      job.persist(env, folder.file("checkpoints/step_00000004"));
      failed = false;
    } catch (const IoError&) {
    }
    env.cut();
    const auto newest = newest_checkpoint(system_env(), folder.file("checkpoints"), nullptr);
    committed += newest.has_value();
    if (!failed) {
      EXPECT_TRUE(newest.has_value());
    }
    if (newest) Checkpoint::open(system_env(), *newest).verify();
  }
  EXPECT_GT(cut_at, 15);
  EXPECT_GE(committed, 1);
}

TEST(Persist, RefusesSlotsThatAreNotThoseOfTheStep) {
  const TestFolder folder;
  const std::string path = folder.file("step_00000004");
  {
    const Job job;
    EXPECT_NE(job.refusal(path, 5).find("is of step 4, expected 5"), std::string::npos);
    release_pins({job.ranks[1]->memory.get(), job.ranks[1]->size_bytes});
    EXPECT_NE(job.refusal(path).find("rank 1: no slot is pinned"), std::string::npos);
  }
  {
    const Job job;
    const auto slot = static_cast<size_t>(*pinned_slot(job.memories()[2]));
    const SlotReader reader = SlotReader::trusted(job.memories()[2], static_cast<int>(slot));
    auto* byte = const_cast<std::byte*>(reader.data(reader.tensors().front())) + 1000;
    *byte ^= std::byte{4};
    EXPECT_NE(job.refusal(path).find("rank 2"), std::string::npos);
    EXPECT_NE(job.refusal(path).find("tensor 'w': block"), std::string::npos);
  }
  {
    Job job;
    job.ranks[1]->slots.unpin();
    job.ranks[1]->step(4, R"({"tokens":8,"step":4})");
    EXPECT_TRUE(job.ranks[1]->slots.pin());
    EXPECT_NE(job.refusal(path).find("the state of rank 1 is not that of rank 0"), std::string::npos);
  }
  EXPECT_TRUE(system_env().list(folder.path()).empty());
}

TEST(Persist, IsGivenUpWithoutATrace) {
  const TestFolder folder;
  const Job job;
  const std::atomic<bool> give_up = true;
  EXPECT_THROW(job.persist(system_env(), folder.file("step_00000004"), 4, &give_up), Interrupted);
  EXPECT_TRUE(system_env().list(folder.path()).empty());
}

TEST(Persist, APinnedSlotIsLeftAloneAndTheOthersTakeTurns) {
  Job job;
  Rank& one = *job.ranks[0];
  const int pinned = *pinned_slot(job.memories()[0]);
  EXPECT_EQ(one.slots.pinned_step(), 4);
  EXPECT_FALSE(one.slots.pin()) << "another one is pinned";
  std::set<int> used;
  for (int64_t step = 5; step < 9; ++step) {
    used.insert(one.slots.begin(step));
    one.step(step);
    EXPECT_EQ(SlotReader::newest(job.memories()[0], {})->step(), step);
  }
  EXPECT_EQ(used.size(), 2u);
  EXPECT_FALSE(used.contains(pinned));
  EXPECT_EQ(one.slots.pinned_step(), 4);
  // Another process goes on in them.
  SlotWriter heir({one.memory.get(), one.size_bytes}, one.tensors,
                  {.run = "run", .layout = "layout", .rank = 0, .size = kRanks}, kCapacity);
  EXPECT_EQ(heir.committed_step(), 8);
  for (int64_t step = 9; step < 12; ++step) {
    EXPECT_NE(heir.begin(step), pinned);
    heir.commit("{}");
  }
  release_pins({one.memory.get(), one.size_bytes});
  EXPECT_EQ(heir.pinned_step(), std::nullopt);
  EXPECT_TRUE(heir.pin());
}

TEST(Persist, ASnapshotOfTwoSlotsPinsNothing) {
  const auto tensors = held_by(0);
  const uint64_t size_bytes = snapshot_bytes(tensors, kCapacity);
  const auto memory = map_shared_memory(size_bytes);
  SlotWriter slots({memory.get(), size_bytes}, tensors, {.run = "run", .layout = "layout"}, kCapacity);
  slots.begin(1);
  slots.commit("{}");
  EXPECT_FALSE(slots.pin());
  EXPECT_EQ(pinned_slot({memory.get(), size_bytes}), std::nullopt);
}

TEST(Persist, FilesGoThroughATextAndBack) {
  const std::string text = pack_files(kFiles);
  const auto files = unpack_files(text);
  ASSERT_EQ(files.size(), kFiles.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].name, kFiles[i].name);
    EXPECT_EQ(files[i].text, kFiles[i].text);
  }
  EXPECT_THROW(unpack_files(text.substr(0, text.size() - 1)), Error);
  EXPECT_THROW(unpack_files("x y\n"), Error);
  EXPECT_THROW(unpack_files("5"), Error);
}

}  // namespace
}  // namespace athanor::tests::persist_test
