// Records in memory and on disk hold the same bytes; every fault of a disk is named and leaves nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "athanor/store/disk_records.h"
#include "athanor/store/memory_records.h"
#include "support/engine.h"
#include "support/scratch_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::records_test {
namespace {

std::string scratch_folder() {
  const std::string folder = temporary_path("records");
  std::filesystem::create_directories(folder);
  return folder;
}

// Items of odd sizes, of one to three records, one of them empty.
struct Items {
  explicit Items(Records& records) {
    int number = 0;
    for (const std::vector<uint64_t>& sizes : std::vector<std::vector<uint64_t>>{
             {10000, 4096}, {1}, {4095, 4097, 70000}, {0, 12}, {20000}, {8192}}) {
      items.emplace_back();
      for (const uint64_t size : sizes)
        items.back().push_back(records.add("record " + std::to_string(number++), size));
    }
  }
  std::vector<Records::Item> items;
};

// Three passes that change every byte, and what is there at the end.
std::string run(Records& records, const std::vector<Records::Item>& items) {
  for (int pass = 1; pass <= 3; ++pass)
    records.stream(items, Access::update, [&](size_t item, std::span<Tensor> bytes) {
      for (size_t r = 0; r < bytes.size(); ++r)
        for (int64_t i = 0; i < bytes[r].numel(); ++i) {
          auto& byte = bytes[r].data<uint8_t>()[i];
          byte = static_cast<uint8_t>(byte * 31 + pass + static_cast<int>(item + r) + i);
        }
    });
  std::string all;
  records.stream(items, Access::read, [&](size_t, std::span<Tensor> bytes) {
    for (const Tensor& record : bytes)
      all.append(static_cast<const char*>(record.raw()), static_cast<size_t>(record.numel()));
  });
  return all;
}

std::string in_memory() {
  Engine engine;
  MemoryRecords records;
  const Items items(records);
  records.allocate(engine.arena, Category::optimizer);
  return run(records, items.items);
}

struct OnDisk {
  explicit OnDisk(ScratchEngine kind = ScratchEngine::best) : env(kind) {}
  void open() { records.allocate(engine.arena, Category::optimizer); }
  std::string go() { return run(records, items.items); }

  Engine engine;
  ScratchEnv env;
  DiskRecords records{env, scratch_folder(), "the state"};
  Items items{records};
};

std::string fault_of(OnDisk& disk) {
  try {
    disk.open();
    disk.go();
  } catch (const IoError& error) {
    EXPECT_EQ(disk.engine.arena.usage().current_total, 0u);  // buffers are given back
    return error.what();
  }
  return "";
}

TEST(Records, AreTheSameOnDiskAsInMemory) {
  const std::string expected = in_memory();
  for (const ScratchEngine engine : {ScratchEngine::best, ScratchEngine::pread})
    for (const bool short_transfers : {false, true})
      for (const bool last_first : {false, true}) {
        OnDisk disk(engine);
        disk.env.faults.short_transfers = short_transfers;
        disk.env.faults.last_first = last_first;
        disk.open();
        EXPECT_TRUE(disk.go() == expected) << short_transfers << last_first;
      }
}

TEST(Records, AreTheSameWithoutAnythingBetween) {
  for (const ScratchEngine kind : {ScratchEngine::best, ScratchEngine::pread}) {
    struct Plain : FaultEnv {
      ScratchEngine engine;
      std::unique_ptr<ScratchFile> create_scratch(const std::string& folder) override {
        return open_scratch_file(folder, engine);
      }
    } env;
    env.engine = kind;
    Engine engine;
    DiskRecords records(env, scratch_folder(), "the state");
    const Items items(records);
    records.allocate(engine.arena, Category::optimizer);
    EXPECT_TRUE(run(records, items.items) == in_memory());
  }
}

TEST(DiskRecords, AreZeroBeforeTheyAreWritten) {
  OnDisk disk;
  disk.open();
  disk.records.stream(disk.items.items, Access::read, [](size_t, std::span<Tensor> bytes) {
    for (const Tensor& record : bytes)
      for (int64_t i = 0; i < record.numel(); ++i) ASSERT_EQ(record.data<uint8_t>()[i], 0);
  });
}

TEST(DiskRecords, NeedThreeItemsOfMemoryAndLeaveNoFile) {
  OnDisk disk;
  disk.open();
  disk.go();
  EXPECT_TRUE(std::filesystem::is_empty(scratch_folder()));
  EXPECT_EQ(disk.engine.arena.usage().current_total, 0u);
  const uint64_t largest = 4096 + 8192 + 73728;  // the third item's records, each in whole blocks
  EXPECT_EQ(disk.engine.arena.usage().peak_total, 3 * largest + kScratchAlignment);
  EXPECT_EQ(disk.records.file_bytes(), 12288u + 4096 + 4096 + largest + 4096 + 20480 + 8192);
}

TEST(DiskRecords, NameWhatCannotBeReadOrWritten) {
  OnDisk read, write, full;
  read.env.faults.fail_read = 3;
  EXPECT_EQ(fault_of(read),
            "the state: cannot read record 3 in '" + scratch_folder() + "': Input/output error");
  write.env.faults.fail_write = 1;
  write.env.faults.code = ENOSPC;
  EXPECT_EQ(fault_of(write),
            "the state: cannot write record 1 in '" + scratch_folder() + "': No space left on device");
  full.env.faults.full = true;
  EXPECT_NE(fault_of(full).find("disk full"), std::string::npos);
}

TEST(DiskRecords, NameWhatTheDiskChangedOrForgot) {
  for (const ScratchEngine kind : {ScratchEngine::best, ScratchEngine::pread}) {
    OnDisk flipped(kind), forgotten(kind);
    flipped.env.faults.flip_write = 4;
    EXPECT_NE(fault_of(flipped).find("the state: record 4 came back changed"), std::string::npos);
    forgotten.env.faults.forget_write = 13;  // record 4 of the second pass: the first pass's bytes are there
    EXPECT_NE(fault_of(forgotten).find("record 4 came back changed"), std::string::npos);
  }
}

TEST(DiskRecords, SurviveAVisitorThatThrows) {
  OnDisk disk;
  disk.open();
  EXPECT_THROW(disk.records.stream(disk.items.items, Access::update,
                                   [](size_t item, std::span<Tensor>) { check(item < 2, "enough"); }),
               Error);
  EXPECT_EQ(disk.engine.arena.usage().current_total, 0u);
  disk.go();
}

TEST(DiskRecords, GrowAndMoveByHand) {
  OnDisk disk;
  disk.open();
  disk.go();
  const int late = disk.records.add("a late one", 5000);
  Tensor bytes = disk.records.make_buffer(5000, Category::workspace);
  std::fill_n(bytes.data<uint8_t>(), 5000, uint8_t{9});
  disk.records.start_write(late, bytes);
  disk.records.finish(late);
  fill_zero(bytes);
  disk.records.start_read(late, bytes);
  disk.records.finish(late);
  disk.records.finish(late);  // nothing to wait for
  EXPECT_EQ(std::count(bytes.data<uint8_t>(), bytes.data<uint8_t>() + 5000, 9), 5000);
  bytes = {};
  Records::Item first = disk.items.items[0];  // what was there is untouched
  std::string before = in_memory(), got;
  disk.records.stream({&first, 1}, Access::read, [&](size_t, std::span<Tensor> records) {
    for (const Tensor& record : records)
      got.append(static_cast<const char*>(record.raw()), static_cast<size_t>(record.numel()));
  });
  EXPECT_TRUE(before.starts_with(got));
}

TEST(Records, RefuseMisuse) {
  OnDisk disk;
  EXPECT_THROW(disk.go(), Error);  // no room yet
  disk.open();
  EXPECT_THROW(disk.records.start_read(0, disk.records.make_buffer(1, Category::workspace)), Error);
  ScratchEnv env;
  EXPECT_THROW(open_scratch_file("/nowhere/at/all"), IoError);
  const auto file = open_scratch_file(scratch_folder());
  EXPECT_THROW(file->submit({.id = 1, .writes = true, .offset = 1, .data = nullptr, .size_bytes = 4096}),
               Error);
  EXPECT_THROW(file->wait_any(), Error);
}

}  // namespace
}  // namespace athanor::tests::records_test
