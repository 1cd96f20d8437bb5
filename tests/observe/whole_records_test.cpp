// Records on a disk that fills up and is emptied again: never half of one.
#include "athanor/observe/whole_records.h"

#include <gtest/gtest.h>

#include <cstring>

#include "athanor/base/error.h"
#include "athanor/observe/metrics.h"
#include "athanor/observe/tensorboard.h"
#include "observe/fault_env.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::whole_records_test {
namespace {

std::string text_of(const std::string& path) {
  return system_env().read_text(path);
}

TEST(WholeRecords, ARecordThatDoesNotFitLeavesNothing) {
  for (int room = 0; room < 30; ++room) {
    const TemporaryFolder folder;
    const std::string path = folder.path("lines");
    FullDiskEnv disk(room);
    WholeRecords files(disk);
    const auto file = files.append_to(path);
    std::string expected;
    for (int line = 0; line < 4; ++line) {
      const std::string record = "line " + std::to_string(line) + "\n";
      file->append(record);
      if (line == 3) disk.set_room(1000);
      try {
        file->flush();
        expected += record;
      } catch (const IoError&) {
      }
      EXPECT_EQ(text_of(path), expected) << room;
    }
    EXPECT_TRUE(expected.ends_with("line 3\n"));
  }
}

// Whatever call fails once, the repair among them, what comes later is whole.
TEST(WholeRecords, AnyCallMayFail) {
  bool has_failed = true;
  for (int64_t at = 0; has_failed; ++at) {
    const TemporaryFolder folder;
    const std::string path = folder.path("lines");
    FaultEnv faults(at);
    WholeRecords files(faults);
    std::string expected;
    std::unique_ptr<WritableFile> file;
    for (int line = 0; line < 5; ++line) {
      const std::string record = "a record of some length " + std::to_string(line) + "\n";
      try {
        if (file == nullptr) file = files.append_to(path);
        file->append(record);
        file->flush();
        expected += record;
      } catch (const IoError&) {
      }
    }
    has_failed = faults.failed();
    EXPECT_EQ(text_of(path), expected) << at;
  }
}

TEST(WholeRecords, AFileThatWasTakenAwayBeginsAnew) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lines");
  FullDiskEnv disk(10);
  WholeRecords files(disk);
  const auto file = files.append_to(path);
  file->append("12345\n");
  file->flush();
  file->append("123456789\n");
  EXPECT_THROW(file->flush(), IoError);
  system_env().remove_all(path);
  disk.set_room(1000);
  file->append("next\n");
  try {
    file->flush();
  } catch (const IoError&) {
  }
  file->append("last\n");
  file->flush();
  if (system_env().exists(path)) {
    EXPECT_TRUE(text_of(path).ends_with("last\n"));
  }
}

// What the run writes: lines of metrics read back, events stay a chain of records.
TEST(WholeRecords, MetricsAndEventsAfterAFullDisk) {
  for (const int64_t room : {0, 100, 700, 1000, 1500}) {
    const TemporaryFolder folder;
    FullDiskEnv disk(100'000);
    WholeRecords files(disk);
    MetricsWriter lines(files, folder.path("metrics.jsonl"), 0);
    TensorBoardWriter board(files, folder.path(""), {.wall_seconds = 1});
    disk.set_room(room);
    std::vector<int64_t> written;
    for (int64_t step = 1; step <= 12; ++step) {
      if (step == 9) disk.set_room(100'000);
      const StepMetrics metrics{.step = step, .tokens = 10 * step, .loss = 1.0 / static_cast<double>(step)};
      try {
        lines.write(metrics);
        written.push_back(step);
      } catch (const IoError&) {
      }
      try {
        board.write(metrics, 1.0);
        board.flush();
      } catch (const IoError&) {
      }
    }
    std::vector<int64_t> found;
    for (const StepMetrics& m : read_metrics(system_env(), folder.path("metrics.jsonl")))
      found.push_back(m.step);
    EXPECT_EQ(found, written);
    EXPECT_LT(found.size(), 12u);
    EXPECT_EQ(found.back(), 12);
    const std::string events = text_of(board.path());
    for (size_t at = 0; at < events.size();) {
      uint64_t length = 0;
      ASSERT_LE(at + 12, events.size());
      std::memcpy(&length, events.data() + at, sizeof(length));
      ASSERT_LE(at + 16 + length, events.size());
      uint32_t crc = 0;
      std::memcpy(&crc, events.data() + at + 12 + length, sizeof(crc));
      EXPECT_EQ(crc, masked_crc32c(std::string_view(events).substr(at + 12, length)));
      at += 16 + length;
    }
  }
}

}  // namespace
}  // namespace athanor::tests::whole_records_test
