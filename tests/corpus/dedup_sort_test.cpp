#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <random>

#include "athanor/corpus/dedup/record_sorter.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::dedup_sort_test {
namespace {

using ::testing::HasSubstr;
using Records = std::vector<KeyRecord>;

Records random_records(size_t count, uint32_t seed, uint64_t different_keys = UINT64_MAX) {
  std::mt19937_64 random(seed);
  Records records;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t key = random() % different_keys;
    const auto begin = static_cast<uint32_t>(random() % 3);
    records.push_back({{key, key % 7}, random() % 100, begin, begin + 1});
  }
  return records;
}

Records sorted_by(Env& env, const std::string& folder, uint64_t memory_bytes, const Records& records,
                  size_t* runs = nullptr) {
  RecordSorter sorter(env, folder, memory_bytes);
  for (const KeyRecord& record : records) sorter.add(record);
  Records out;
  sorter.merge([&](const KeyRecord& record) { out.push_back(record); });
  if (runs) *runs = sorter.runs();
  EXPECT_EQ(sorter.records(), records.size());
  return out;
}

class DedupSortTest : public ::testing::Test {
 protected:
  // Files of the folder and of the folders in it.
  size_t files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path("")))
      count += entry.is_regular_file();
    return count;
  }
  std::string path(const std::string& name) const { return temporary_.path(name); }

  TemporaryFolder temporary_;
  Env& env_ = system_env();
};

TEST_F(DedupSortTest, AnyMemoryGivesWhatStdSortGives) {
  for (const size_t count : {0, 1, 2, 111, 112, 113, 5000}) {
    for (const uint64_t keys : {UINT64_MAX, uint64_t{5}}) {
      const Records records = random_records(count, 1, keys);
      Records expected = records;
      std::sort(expected.begin(), expected.end());
      for (const uint64_t memory : {uint64_t{4096}, uint64_t{5000}, uint64_t{20000}, uint64_t{1} << 20})
        EXPECT_EQ(sorted_by(env_, path("sort"), memory, records), expected) << count << ", " << memory;
    }
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(DedupSortTest, ManyRunsTakeSeveralPasses) {
  size_t runs = 0;
  const Records records = random_records(20000, 2);
  Records expected = records;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(sorted_by(env_, path("sort"), kMinSortBytes, records, &runs), expected);
  EXPECT_GT(runs, 100U);  // three at a time
  EXPECT_EQ(sorted_by(env_, path("sort"), 1 << 20, records, &runs), expected);
  EXPECT_EQ(runs, 0U);  // all in memory
}

TEST_F(DedupSortTest, TheOrderOfComingDoesNotMatter) {
  Records records = random_records(3000, 3, 50);
  const Records first = sorted_by(env_, path("sort"), 8000, records);
  std::reverse(records.begin(), records.end());
  EXPECT_EQ(sorted_by(env_, path("sort"), 8000, records), first);
}

uint64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(DedupSortTest, MemoryStaysWithinTheLimit) {
  if (heap_bytes() == 0) GTEST_SKIP() << "this allocator counts nothing";
  constexpr uint64_t kLimit = 1 << 20;
  constexpr uint64_t kOpenFiles = 16 << 10;  // their objects and paths
  const uint64_t before = heap_bytes();
  uint64_t most = before;
  RecordSorter sorter(env_, path("sort"), kLimit);
  std::mt19937_64 random(4);
  constexpr uint64_t kRecords = 200000;  // 6.4 MB
  for (uint64_t i = 0; i < kRecords; ++i) {
    sorter.add({{random(), 0}, i, 0, 1});
    most = std::max(most, i % 64 == 0 ? heap_bytes() : 0);
  }
  uint64_t seen = 0;
  sorter.merge([&](const KeyRecord&) { most = std::max(most, seen++ % 64 == 0 ? heap_bytes() : 0); });
  EXPECT_EQ(seen, kRecords);
  EXPECT_GT(sorter.runs(), 5U);
  EXPECT_LE(most - before, kLimit + kOpenFiles);
}

TEST_F(DedupSortTest, RunsOfSeveralWorkersMergeToOneStream) {
  const Records records = random_records(4000, 5, 300);
  std::vector<std::string> paths;
  for (size_t worker = 0; worker < 3; ++worker) {
    RecordSorter sorter(env_, path("sort-" + std::to_string(worker)), 9000);
    for (size_t i = worker; i < records.size(); i += 3) sorter.add(records[i]);
    paths.push_back(path("run-" + std::to_string(worker)));
    RunWriter writer(env_, paths.back(), 1000);
    sorter.merge([&](const KeyRecord& record) { writer.add(record); });
    writer.close();
  }
  Records expected = records, merged;
  std::sort(expected.begin(), expected.end());
  merge_runs(env_, paths, path("merge"), kMinSortBytes,
             [&](const KeyRecord& record) { merged.push_back(record); });
  EXPECT_EQ(merged, expected);
  EXPECT_EQ(files(), 3U);
  merge_runs(env_, {}, path("merge"), kMinSortBytes, [](const KeyRecord&) { FAIL(); });
}

TEST_F(DedupSortTest, ADiskThatFailsIsAnIoErrorAndLeavesNoFiles) {
  const Records records = random_records(600, 6);
  int64_t calls = 0;
  for (int64_t fail_at = 0; fail_at <= calls; ++fail_at) {
    FaultEnv env(fail_at);
    bool failed = false;
    try {
      EXPECT_EQ(sorted_by(env, path("sort"), kMinSortBytes, records).size(), records.size());
    } catch (const IoError&) {
      failed = true;
    }
    // One that fails while files are removed is not told: what they held was used.
    if (!failed) std::filesystem::remove_all(path("sort"));
    if (!env.failed()) break;
    EXPECT_EQ(files(), 0U) << fail_at;
    calls = env.calls();
  }
  EXPECT_GT(calls, 50);
}

TEST_F(DedupSortTest, NoDiskIsNeededForWhatFitsIntoMemory) {
  FaultEnv env(0, FaultEnv::Fault::kill);
  EXPECT_EQ(sorted_by(env, path("sort"), 1 << 20, random_records(1000, 7)).size(), 1000U);
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST_F(DedupSortTest, BrokenRunsAreNamed) {
  const auto merge = [&] {
    merge_runs(env_, {path("run")}, path("merge"), kMinSortBytes, [](const KeyRecord&) {});
  };
  EXPECT_THAT(failure_of(merge), HasSubstr(path("run")));
  env_.write_atomically(path("run"), std::string(33, 'x'));
  EXPECT_THAT(failure_of(merge), HasSubstr("got 33 bytes, expected sorted records of 32 bytes"));
  RunWriter writer(env_, path("run"), 1000);
  for (const uint64_t key : {1, 3, 2}) writer.add({{key, 0}, 0, 0, 0});
  writer.close();
  EXPECT_EQ(writer.records(), 3U);
  EXPECT_THAT(failure_of(merge), HasSubstr("record 2 comes before the one in front of it"));
}

TEST_F(DedupSortTest, TooLittleMemoryIsRefused) {
  EXPECT_THAT(failure_of([&] { RecordSorter(env_, path("sort"), 4095); }),
              HasSubstr("memory: got 4095 bytes, expected at least 4096"));
}

}  // namespace
}  // namespace athanor::tests::dedup_sort_test
