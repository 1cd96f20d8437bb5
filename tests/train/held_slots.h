// Memory for the snapshots of a run's ranks, held by the test as `launch` holds it, and what a parent reads there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/slot_reader.h"

namespace athanor::tests {

struct HeldSlots {
  explicit HeldSlots(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) fds.push_back(create_shared_memory("snapshot", 0));
  }
  ~HeldSlots() {
    for (const int fd : fds) close(fd);
  }
  HeldSlots(const HeldSlots&) = delete;
  HeldSlots& operator=(const HeldSlots&) = delete;

  std::vector<int> fds;
  std::vector<std::shared_ptr<std::byte>> memory;

  std::vector<SlotReader> read() {
    std::vector<SlotReader> readers;
    for (const int fd : fds) {
      const auto bytes = static_cast<size_t>(lseek(fd, 0, SEEK_END));
      memory.push_back(map_shared_memory(bytes, fd));
      std::vector<SlotFinding> findings;
      auto newest = SlotReader::newest({memory.back().get(), bytes}, {}, &findings);
      EXPECT_TRUE(newest.has_value()) << findings.at(0).reason << "; " << findings.at(1).reason;
      if (newest) readers.push_back(std::move(*newest));
    }
    return readers;
  }
};

// Every element of every tensor of the checkpoint, as the slots of all ranks have it.
inline void expect_equal(const std::vector<SlotReader>& slots, const Checkpoint& checkpoint) {
  for (const TensorEntry& entry : checkpoint.tensors()) {
    std::vector<float> expected(static_cast<size_t>(entry.shape.numel())), got(expected.size(), -1e30f);
    checkpoint.read_box(entry.name, entry.shape, whole_box(entry.shape), expected.data());
    for (const SlotReader& slot : slots)
      slot.read_box(entry.name, Dtype::f32, entry.shape, whole_box(entry.shape), got.data());
    EXPECT_EQ(got, expected) << entry.name;
  }
}

}  // namespace athanor::tests
