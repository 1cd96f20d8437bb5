// Buckets on disk are what was written to them last, in whatever order they are read ahead, looked at and written; what
// a disk spoils is named.
#include "athanor/parallel/data/bucket_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/engine.h"
#include "support/scratch_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::bucket_file_test {
namespace {

const std::vector<int64_t> kCounts = {5000, 1, 0, 1024, 300};

std::vector<BucketRow> rows() {
  std::vector<BucketRow> rows;
  for (const int64_t count : kCounts) rows.push_back({fmt::format("'row of {}'", count), count});
  return rows;
}

struct File {
  explicit File(Env& env)
      : file("gradients", rows(), Dtype::f32, engine.arena, Category::gradients,
             {&env, temporary_path("bucket_file")}) {}

  void write(size_t set, size_t bucket, float value) {
    const Tensor row = file.fresh(bucket);
    std::fill_n(row.data<float>(), row.numel(), value);
    file.write(set, bucket, row);
  }
  static bool is(const Tensor& row, float value) {
    const float* values = row.data<float>();
    return std::all_of(values, values + row.numel(), [&](float each) { return each == value; });
  }

  Engine engine;
  BucketFile file;
};

TEST(BucketFile, HoldsWhatWasWrittenLast) {
  ScratchEnv env;
  env.faults.short_transfers = env.faults.last_first = true;
  File f(env);
  f.file.reserve(3);
  for (size_t bucket = 0; bucket < kCounts.size(); ++bucket) {
    EXPECT_TRUE(File::is(f.file.read(2, bucket), 0.0f)) << "nothing was written";
    EXPECT_EQ(f.file.read(0, bucket).shape(), Shape{kCounts[bucket]});
  }
  // Random calls beside a model of what they do.
  const RandomStream stream(3, "calls");
  std::vector<std::vector<float>> expected(3, std::vector<float>(kCounts.size(), 0.0f));
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint32_t word = stream.word(i, 0);
    const size_t set = word % 3, bucket = word / 3 % kCounts.size();
    const float value = static_cast<float>(i + 1);
    switch (word / 64 % 5) {
      case 0:
        f.file.put_back();
        EXPECT_TRUE(File::is(f.file.read(set, bucket), expected[set][bucket]));  // what was read ahead goes
        f.write(set, bucket, expected[set][bucket] = value);
        break;
      case 1:
        f.file.read_ahead(set, bucket);
        break;
      case 2:
        EXPECT_TRUE(File::is(f.file.read(set, bucket), expected[set][bucket])) << i;
        break;
      case 3: {
        const Tensor row = f.file.look(set, bucket);
        ASSERT_TRUE(File::is(row, expected[set][bucket])) << i;
        std::fill_n(row.data<float>(), row.numel(), value);
        f.file.changed();
        expected[set][bucket] = value;
        break;
      }
      default:
        if (word % 7 == 0) f.file.settle();
    }
  }
  f.file.settle();
  for (size_t set = 0; set < 3; ++set)
    for (size_t bucket = 0; bucket < kCounts.size(); ++bucket)
      EXPECT_TRUE(File::is(f.file.read(set, bucket), expected[set][bucket]));
}

TEST(BucketFile, KeepsOneRowBeyondWhatIsHeld) {
  ScratchEnv env;
  File f(env);
  for (size_t bucket = 0; bucket < kCounts.size(); ++bucket) f.write(0, bucket, 1.0f);
  f.file.settle();
  EXPECT_EQ(f.engine.arena.usage().current_total, 0u);
  f.file.look(0, 0);
  f.file.read_ahead(0, 3);
  const uint64_t rows = (5000 + 1024) * sizeof(float);
  EXPECT_GE(f.engine.arena.usage().current_total, rows);
  EXPECT_LE(f.engine.arena.usage().current_total, rows + 4 * 4096);  // aligned
}

TEST(BucketFile, NamesWhatADiskSpoils) {
  for (const bool forgets : {false, true}) {
    ScratchEnv env;
    File f(env);
    f.write(0, 0, 1.0f);
    f.file.settle();
    (forgets ? env.faults.forget_write : env.faults.flip_write) = env.faults.writes;
    f.write(0, 0, 2.0f);
    f.file.settle();
    try {
      f.file.read(0, 0);
      FAIL();
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("gradients: 'row of 5000' came back changed"),
                std::string::npos)
          << error.what();
    }
  }
  ScratchEnv env;
  env.faults.full = true;
  EXPECT_THROW(File f(env), IoError);
}

TEST(BucketFile, RefusesRowsThatItDoesNotHave) {
  ScratchEnv env;
  File f(env);
  EXPECT_THROW(f.file.read(1, 0), Error);
  EXPECT_THROW(f.file.look(0, kCounts.size()), Error);
}

}  // namespace
}  // namespace athanor::tests::bucket_file_test
