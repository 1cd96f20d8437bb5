// Snapshots in memory: what was committed is read back, from any layout; what was not, or is damaged, is told apart.
#include "athanor/checkpoint/format/slots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/slot_reader.h"

namespace athanor::tests::slots_test {
namespace {

constexpr uint64_t kCapacity = 300;

SlotTensor whole_tensor(const std::string& name, const Shape& shape, Dtype dtype = Dtype::f32) {
  return {name, dtype, shape, {whole_box(shape)}};
}

const std::vector<SlotTensor> kTensors = {whole_tensor("model.w", {150, 133}),
                                          whole_tensor("adam.codes", {70001}, Dtype::u8),
                                          whole_tensor("none", {0, 4}),
                                          whole_tensor("router.bias", {3}, Dtype::f64),
                                          {"adam.m", Dtype::f32, {40, 5}, boxes_of({40, 5}, 7, 91), 12}};

// Slots in memory of the process.
struct Slots {
  explicit Slots(std::vector<SlotTensor> of = kTensors, SlotIdentity by = {"run", "layout", 2, 4, 5})
      : tensors(std::move(of)),
        identity(std::move(by)),
        size_bytes(snapshot_bytes(tensors, kCapacity)),
        memory(map_shared_memory(size_bytes)) {}

  std::span<std::byte> all() const { return {memory.get(), size_bytes}; }
  std::span<std::byte> slot(int which) const {
    return all().subspan(static_cast<size_t>(which) * size_bytes / 2, size_bytes / 2);
  }
  SlotHeader& header(int which) const { return *reinterpret_cast<SlotHeader*>(slot(which).data()); }
  SlotWriter writer() const { return SlotWriter(all(), tensors, identity, kCapacity); }
  SlotFinding examine(int which, const ExpectedSlot& expected = {}) const {
    return examine_slot(all(), which, expected);
  }

  std::vector<SlotTensor> tensors;
  SlotIdentity identity;
  uint64_t size_bytes;
  std::shared_ptr<std::byte> memory;
};

// The bytes of a tensor at a step.
std::vector<unsigned char> bytes_of(const SlotTensor& tensor, int64_t step) {
  std::mt19937 random(static_cast<uint32_t>(step * 31 + static_cast<int64_t>(tensor.name.size())));
  std::vector<unsigned char> bytes(tensor.size_bytes());
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

std::string state_of(int64_t step) {
  return fmt::format(R"({{"step":{}}})", step);
}

void write_step(SlotWriter& writer, const std::vector<SlotTensor>& tensors, int64_t step) {
  writer.begin(step);
  for (size_t i = 0; i < tensors.size(); ++i) writer.copy(i, bytes_of(tensors[i], step).data());
  writer.commit(state_of(step));
}

void expect_step(const SlotReader& slot, const std::vector<SlotTensor>& tensors, int64_t step) {
  EXPECT_EQ(slot.step(), step);
  EXPECT_EQ(slot.state(), state_of(step));
  ASSERT_EQ(slot.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const PlacedTensor& held = slot.tensors()[i];
    EXPECT_EQ(held.tensor.name, tensors[i].name);
    EXPECT_EQ(held.tensor.shape, tensors[i].shape);
    EXPECT_EQ(held.tensor.dtype, tensors[i].dtype);
    EXPECT_EQ(held.tensor.boxes, tensors[i].boxes);
    const auto expected = bytes_of(tensors[i], step);
    EXPECT_TRUE(expected.empty() || std::memcmp(slot.data(held), expected.data(), expected.size()) == 0);
  }
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Slots, StepsAlternateAndTheNewestIsRead) {
  const Slots slots;
  EXPECT_EQ(slots.examine(0).state, SlotState::empty);
  SlotWriter writer = slots.writer();
  EXPECT_EQ(slots.examine(1).state, SlotState::empty);
  EXPECT_EQ(SlotReader::newest(slots.all(), {}), std::nullopt);
  EXPECT_EQ(writer.committed_step(), std::nullopt);
  for (int64_t step = 10; step < 15; ++step) {
    write_step(writer, slots.tensors, step);
    const auto newest = SlotReader::newest(slots.all(), {.run = "run", .layout = "layout", .rank = 2});
    ASSERT_TRUE(newest);
    expect_step(*newest, slots.tensors, step);
    EXPECT_EQ(newest->generation(), 5);
    EXPECT_EQ(newest->identity().run, "run");
    EXPECT_EQ(newest->slot(), static_cast<int>(step % 2));
    EXPECT_EQ(writer.committed_step(), step);
    if (step > 10) {
      EXPECT_EQ(slots.examine(static_cast<int>((step + 1) % 2)).step, step - 1);
    }
    for (size_t i = 0; i < slots.tensors.size(); ++i) {
      EXPECT_EQ(writer.committed(i), newest->data(newest->tensors()[i]));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(writer.committed(i)) % 64, 0u);
    }
  }
}

TEST(Slots, AWriterGoesOnWhereAnotherLeftOff) {
  Slots slots;
  {
    SlotWriter first = slots.writer();
    write_step(first, slots.tensors, 1);
    write_step(first, slots.tensors, 2);
    first.begin(3);  // and dies
    std::memset(first.data(0), 0x55, 100);
  }
  slots.identity.generation = 6;
  SlotWriter second = slots.writer();
  EXPECT_EQ(second.committed_step(), 2);
  second.begin(2);  // once more, as after a rollback
  second.begin(3);  // given up and begun again
  for (size_t i = 0; i < slots.tensors.size(); ++i) {
    const auto bytes = bytes_of(slots.tensors[i], 3);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(second.data(i)));
    second.take_checksums(i);
  }
  expect_step(*SlotReader::newest(slots.all(), {}), slots.tensors, 2);
  second.commit(state_of(3));
  expect_step(*SlotReader::newest(slots.all(), {.generation = 6}), slots.tensors, 3);
  write_step(second, slots.tensors, 1);  // the newest is the last commit, whatever its step
  expect_step(*SlotReader::newest(slots.all(), {}), slots.tensors, 1);
}

// Flipped data of the newest commit: a writer keeps the other slot, which is whole, and writes over the damaged one.
TEST(Slots, AWriterWritesOverADamagedSlot) {
  const Slots slots;
  SlotWriter first = slots.writer();
  write_step(first, slots.tensors, 1);
  write_step(first, slots.tensors, 2);
  slots.slot(1)[slots.header(1).fixed.places.data + 77] ^= std::byte{4};
  SlotWriter second = slots.writer();
  EXPECT_EQ(second.committed_step(), 1);
  second.begin(2);
  EXPECT_EQ(slots.examine(0).state, SlotState::whole);
  EXPECT_EQ(slots.examine(1).state, SlotState::torn);
}

TEST(Slots, TornStaleAndForeignSaySo) {
  Slots slots;
  SlotWriter writer = slots.writer();
  write_step(writer, slots.tensors, 1);
  write_step(writer, slots.tensors, 2);
  const auto says = [&](int slot, const ExpectedSlot& expected) {
    const SlotFinding finding = slots.examine(slot, expected);
    return fmt::format("{}: {}", name_of(finding.state), finding.reason);
  };
  EXPECT_EQ(says(1, {}), "whole: ");
  EXPECT_EQ(says(1, {.generation = 6}), "stale: slot 1: of generation 5, expected at least 6");
  EXPECT_EQ(says(1, {.run = "other"}), "foreign: slot 1: of run 'run', expected 'other'");
  EXPECT_EQ(says(1, {.layout = "other"}), "foreign: slot 1: of layout 'layout', expected 'other'");
  EXPECT_EQ(says(1, {.rank = 3}), "foreign: slot 1: of rank 2, expected 3");
  std::vector<SlotFinding> findings;
  EXPECT_EQ(SlotReader::newest(slots.all(), {.generation = 6}, &findings), std::nullopt);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].step, 1);
  const auto newest = SlotReader::newest(slots.all(), {});
  EXPECT_TRUE(newest->unchanged());
  writer.begin(3);
  EXPECT_TRUE(newest->unchanged());
  EXPECT_EQ(says(0, {}), "torn: slot 0: a step was begun and not committed");
  writer.commit(state_of(3));
  writer.begin(4);
  EXPECT_FALSE(newest->unchanged());
  slots.header(0).fixed.version = kSlotVersion + 1;
  slots.header(0).fixed_seal = seal_of(slots.header(0).fixed);
  EXPECT_EQ(says(0, {}), "foreign: slot 0: of format version 4, expected 3");
  std::memset(slots.all().data(), 0xab, slots.size_bytes);
  EXPECT_EQ(says(0, {}), "foreign: slot 0: not a slot of a snapshot");
}

TEST(Slots, WhatIsWrongIsRefusedAndDamagesNothing) {
  const Slots slots;
  SlotWriter writer = slots.writer();
  write_step(writer, slots.tensors, 1);
  EXPECT_EQ(error_of([&] { writer.data(0); }),
            "snapshot: got data outside of a step, expected begin() first");
  EXPECT_EQ(error_of([&] { writer.commit("{}"); }), "snapshot: got a commit, expected begin() first");
  writer.begin(2);
  EXPECT_EQ(error_of([&] { writer.commit(std::string(kCapacity + 1, ' ')); }),
            "snapshot: got a state of 301 bytes, expected at most 300");
  expect_step(*SlotReader::newest(slots.all(), {}), slots.tensors, 1);
  const std::vector<std::byte> before(slots.all().begin(), slots.all().end());
  std::vector<SlotTensor> renamed = slots.tensors;
  renamed[0].name = "model.v";
  const auto attach = [&](std::span<const SlotTensor> tensors, const SlotIdentity& identity) {
    return error_of([&] { SlotWriter(slots.all(), tensors, identity, kCapacity); });
  };
  EXPECT_NE(attach(renamed, slots.identity).find("another run, layout, rank or list of tensors"),
            std::string::npos);
  EXPECT_NE(attach(slots.tensors, {"run 2", "layout", 2, 4, 5}).find("expected run 'run 2'"),
            std::string::npos);
  EXPECT_NE(attach(slots.tensors, {"run", "layout", 1, 4, 5}).find("rank 1"), std::string::npos);
  EXPECT_EQ(attach(slots.tensors, {"run", "layout", 2, 4, 4}),
            "snapshot: the memory holds step 1 of generation 5, expected at most generation 4");
  EXPECT_NE(attach(std::vector{whole_tensor("large", {3000000})}, slots.identity).find("bytes of memory"),
            std::string::npos);
  EXPECT_NE(attach(std::vector{SlotTensor{"w", Dtype::f32, {2}, {whole_box({3})}}}, slots.identity)
                .find("tensor 'w': the box at [0] of [3] lies outside of [2]"),
            std::string::npos);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), slots.all().begin()));
}

// Ranks hold rows, flat ranges or all; whoever wants a box of the whole gets it from their slots.
TEST(Slots, ABoxIsReadFromTheSlotsOfAnyLayout) {
  const Shape shape{6, 5};
  std::vector<float> values(30);
  std::iota(values.begin(), values.end(), 100.0f);
  const auto dense = [&](const Box& box) {
    std::vector<float> part(static_cast<size_t>(box.extent.numel()));
    BoxRuns(shape, box).walk(0, box.extent.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
      std::copy_n(values.begin() + in_whole, count, part.begin() + in_box);
    });
    return part;
  };
  const std::vector<std::vector<std::vector<Box>>> layouts = {
      {{whole_box(shape)}},
      {{{{0, 0}, {4, 5}}}, {{{4, 0}, {2, 5}}}},
      {{{{0, 0}, {6, 2}}}, {{{0, 2}, {6, 3}}}},
      {boxes_of(shape, 0, 13), boxes_of(shape, 13, 14), boxes_of(shape, 14, 30)}};
  for (const auto& layout : layouts) {
    std::vector<Slots> ranks;
    for (const auto& boxes : layout) {
      std::vector<float> held;
      for (const Box& box : boxes) {
        const auto part = dense(box);
        held.insert(held.end(), part.begin(), part.end());
      }
      held.resize(held.size() + 3, -1.0f);
      const Slots& slots = ranks.emplace_back(
          std::vector{whole_tensor("before", {77}, Dtype::u8), SlotTensor{"w", Dtype::f32, shape, boxes, 3}});
      SlotWriter writer = slots.writer();
      writer.begin(1);
      writer.copy(0, std::vector<char>(77).data());
      writer.copy(1, held.data());
      writer.commit("{}");
    }
    for (const Box& wanted :
         {whole_box(shape), Box{{1, 1}, {4, 3}}, Box{{5, 4}, {1, 1}}, Box{{2, 0}, {0, 5}}}) {
      std::vector<float> got(static_cast<size_t>(wanted.extent.numel()), -2.0f);
      int64_t copied = 0;
      for (const Slots& slots : ranks)
        copied += SlotReader::newest(slots.all(), {})->read_box("w", Dtype::f32, shape, wanted, got.data());
      EXPECT_EQ(copied, wanted.extent.numel());
      EXPECT_EQ(got, dense(wanted));
    }
    const auto slot = SlotReader::newest(ranks[0].all(), {});
    EXPECT_EQ(slot->read_box("x", Dtype::f32, shape, whole_box(shape), nullptr), 0);
    EXPECT_EQ(error_of([&] {
                slot->read_box("w", Dtype::f32, {5, 6}, whole_box({5, 6}), nullptr);
              }),
              "snapshot: slot 0: tensor 'w': got f32 [6,5], expected f32 [5,6]");
  }
}

class Flips : public ::testing::Test {
 protected:
  Flips() {
    SlotWriter writer = slots.writer();
    write_step(writer, slots.tensors, 1);
    write_step(writer, slots.tensors, 2);
    places = slots.header(1).fixed.places;
  }
  // Flips a bit, examines, and flips it back.
  SlotFinding after_flip(uint64_t byte, int bit) {
    std::byte& place = slots.slot(1)[byte];
    place ^= std::byte{1} << bit;
    SlotFinding finding = slots.examine(1, {.run = "run", .layout = "layout", .rank = 2});
    place ^= std::byte{1} << bit;
    return finding;
  }
  const Slots slots;
  SlotPlaces places{};
};

TEST_F(Flips, EveryBitOfHeaderManifestAndStateIsFound) {
  struct Part {
    uint64_t first, size_bytes;
    std::string says;
  };
  const std::vector<Part> parts = {
      {0, offsetof(SlotHeader, fixed), ""},
      {offsetof(SlotHeader, fixed), sizeof(SlotHeader::Fixed), ""},
      {offsetof(SlotHeader, commit), sizeof(SlotHeader::Commit), "header of the commit"},
      {places.manifest, places.manifest_bytes, "manifest"},
      {places.state, state_of(2).size(), "state"}};
  for (const Part& part : parts)
    for (uint64_t byte = part.first; byte < part.first + part.size_bytes; ++byte)
      for (int bit = 0; bit < 8; ++bit) {
        const SlotFinding finding = after_flip(byte, bit);
        const bool is_magic = byte - offsetof(SlotHeader, fixed) < sizeof(uint64_t);
        ASSERT_EQ(finding.state, is_magic ? SlotState::foreign : SlotState::flipped) << byte << ' ' << bit;
        ASSERT_NE(finding.reason.find(part.says), std::string::npos) << finding.reason;
      }
  EXPECT_EQ(slots.examine(1).state, SlotState::whole);
}

TEST_F(Flips, AnyBitOfDataAndChecksumsIsFoundWithItsBlock) {
  std::mt19937 random(1);
  const auto tensors = SlotReader::newest(slots.all(), {})->tensors();
  for (int trial = 0; trial < 4000; ++trial) {
    const int bit = static_cast<int>(random() % 8);
    if (trial % 8 == 0) {
      const uint64_t byte = places.checksums + random() % places.checksums_bytes;
      ASSERT_EQ(after_flip(byte, bit).reason.find("slot 1: block checksums: "), 0u) << byte;
      continue;
    }
    const PlacedTensor& held = tensors[random() % tensors.size()];
    if (held.tensor.size_bytes() == 0) continue;
    const uint64_t at = random() % held.tensor.size_bytes();
    const SlotFinding finding = after_flip(places.data + held.data + at, bit);
    ASSERT_EQ(finding.state, SlotState::flipped);
    ASSERT_EQ(finding.reason.find(
                  fmt::format("slot 1: tensor '{}': block {}: got checksum ", held.tensor.name, at / 65536)),
              0u)
        << finding.reason;
  }
  EXPECT_EQ(slots.examine(1).state, SlotState::whole);
}

TEST_F(Flips, TheOtherSlotIsTakenForADamagedOneAndNoneForTwo) {
  slots.slot(1)[places.data] ^= std::byte{1};
  expect_step(*SlotReader::newest(slots.all(), {}), slots.tensors, 1);
  slots.slot(0)[places.state] ^= std::byte{1};
  std::vector<SlotFinding> findings;
  EXPECT_EQ(SlotReader::newest(slots.all(), {}, &findings), std::nullopt);
  EXPECT_EQ(findings[0].reason.find("slot 0: state: got checksum "), 0u) << findings[0].reason;
  EXPECT_EQ(findings[1].reason.find("slot 1: tensor 'model.w': block 0: "), 0u) << findings[1].reason;
}

// Blocks that change places, and a block of the step before, such as a lost write leaves.
TEST_F(Flips, MovedAndOldBlocksAreFound) {
  std::byte *data = slots.slot(1).data() + places.data, *old = slots.slot(0).data() + places.data;
  std::swap_ranges(data, data + 1000, data + 65536 / 4);
  EXPECT_EQ(slots.examine(1).state, SlotState::flipped);
  std::swap_ranges(data, data + 1000, data + 65536 / 4);
  EXPECT_EQ(slots.examine(1).state, SlotState::whole);
  std::swap_ranges(data + 4096, data + 8192, old + 4096);
  EXPECT_EQ(slots.examine(1).state, SlotState::flipped);
  EXPECT_EQ(slots.examine(0).state, SlotState::flipped);
}

}  // namespace
}  // namespace athanor::tests::slots_test
