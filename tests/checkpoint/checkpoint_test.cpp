#include "athanor/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "athanor/checkpoint/format/staged_folder.h"
#include "checkpoint/content.h"
#include "support/fault_env.h"

namespace athanor::tests::checkpoint_test {
namespace {

namespace fs = std::filesystem;

std::string write_as_one(const std::string& folder, const CheckpointContent& content) {
  const auto group = make_single_group();
  return write_checkpoint(system_env(), *group, folder, content);
}

TEST(Checkpoint, ReadsBackWhatAnyNumberOfRanksWrote) {
  std::string digest;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const TestFolder folder;
    TestContent source;
    std::vector<std::string> paths(static_cast<size_t>(ranks));
    const auto groups = make_thread_groups(ranks);
    run_ranks(groups, [&](Group& group) {
      paths[static_cast<size_t>(group.rank())] =
          write_checkpoint(system_env(), group, folder.path(), source.content(100));
    });
    for (const std::string& path : paths) EXPECT_EQ(path, folder.file("step_00000100"));
    EXPECT_EQ(system_env().list(folder.path()), std::vector<std::string>{"step_00000100"});
    const Checkpoint checkpoint = Checkpoint::open(system_env(), paths[0]);
    checkpoint.verify();
    source.expect_equal(checkpoint);
    if (ranks == 1) digest = checkpoint.digest();
    EXPECT_EQ(checkpoint.digest(), digest) << ranks << " ranks";
  }
  EXPECT_EQ(digest.size(), 64u);
}

TEST(Checkpoint, MoreRanksThanTensors) {
  const TestFolder folder;
  TestContent source;
  source.tensors.resize(1);
  const auto groups = make_thread_groups(4);
  run_ranks(groups,
            [&](Group& group) { write_checkpoint(system_env(), group, folder.path(), source.content(1)); });
  const Checkpoint checkpoint = Checkpoint::open(system_env(), folder.file("step_00000001"));
  checkpoint.verify();
  source.expect_equal(checkpoint);
}

TEST(Checkpoint, DigestSeesEveryValueNameShapeAndCounterButNotFiles) {
  TestContent source;
  const auto digest = [&](const CheckpointContent& content) {
    const TestFolder folder;
    return Checkpoint::open(system_env(), write_as_one(folder.path(), content)).digest();
  };
  const CheckpointContent content = source.content(100);
  const std::string first = digest(content);
  EXPECT_EQ(digest(content), first);
  auto other = content;
  other.files.clear();
  other.state = R"({"seed":18446744073709551615, "tokens":12345, "step":100, "data_identity":"elsewhere"})";
  std::reverse(other.tensors.begin(), other.tensors.end());
  EXPECT_EQ(digest(other), first) << "order, files and unknown keys of the state do not count";
  for (const char* state :
       {R"({"step":100,"tokens":12346,"seed":18446744073709551615})",
        R"({"step":100,"tokens":12345,"seed":18446744073709551614})",
        R"({"step":100,"tokens":12345,"seed":18446744073709551615,"loss_scale":{"scale":2.0}})"}) {
    other = content;
    other.state = state;
    EXPECT_NE(digest(other), first) << state;
  }
  EXPECT_NE(digest(source.content(101)), first);
  other = content;
  other.tensors[0].name += "x";
  EXPECT_NE(digest(other), first);
  other = content;
  other.tensors[0].tensor = other.tensors[0].tensor.view({5, 7});
  EXPECT_NE(digest(other), first);
  source.tensors[4].tensor.data<float>()[119] =
      std::nextafter(source.tensors[4].tensor.data<float>()[119], 9.0f);
  EXPECT_NE(digest(source.content(100)), first);
}

TEST(Checkpoint, RefusesContentThatCannotBeOne) {
  TestContent source;
  const TestFolder folder;
  const auto refused = [&](const auto& change) {
    CheckpointContent content = source.content(1);
    change(content);
    EXPECT_THROW(write_as_one(folder.path(), content), Error);
    EXPECT_TRUE(!fs::exists(folder.path()) || system_env().list(folder.path()).empty());
  };
  refused([](auto& c) { c.step = -1; });
  refused([](auto& c) { c.state = "[]"; });
  refused([](auto& c) { c.state = "{"; });
  refused([](auto& c) { c.tensors[1].name = c.tensors[0].name; });
  refused([](auto& c) { c.tensors[1].name = std::string(513, 'x'); });
  refused([](auto& c) { c.tensors[1].name = "\xff\xfe"; });
  refused([](auto& c) { c.tensors[1].tensor = Tensor(); });
  refused([](auto& c) { c.files[0].name = "../x"; });
  refused([](auto& c) { c.files[0].name = "manifest.json"; });
  refused([](auto& c) { c.files[0].name = c.files[1].name; });
  refused([](auto& c) { c.files[0].name = "tensors-00000.safetensors"; });
}

TEST(Checkpoint, WrongNamesAndShapesAreNamed) {
  const TestFolder folder;
  TestContent source;
  const Checkpoint checkpoint =
      Checkpoint::open(system_env(), write_as_one(folder.path(), source.content(1)));
  EXPECT_TRUE(checkpoint.has("model.part0"));
  EXPECT_FALSE(checkpoint.has("part0"));
  EXPECT_TRUE(checkpoint.has_file("tokenizer.json"));
  EXPECT_FALSE(checkpoint.has_file("tensors-00000.safetensors"));
  std::vector<float> values(35);
  EXPECT_THROW(checkpoint.read("part0", values.data()), Error);
  EXPECT_THROW(checkpoint.file_text("nothing"), Error);
  try {
    checkpoint.read("model.part0", {5, 7}, values.data());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'model.part0': got [7,5], expected [5,7]"), std::string::npos)
        << error.what();
  }
}

TEST(Folder, ListsByStepWhereverThePathPoints) {
  const TestFolder run;
  TestContent source;
  const std::string inner = run.file("checkpoints");
  EXPECT_TRUE(list_checkpoints(system_env(), inner).empty());
  EXPECT_EQ(newest_checkpoint(system_env(), inner, nullptr), std::nullopt);
  for (const int64_t step : {1000, 20, 123456789}) write_as_one(inner, source.content(step));
  for (const char* other : {"step_12", "step_00000007x", "step_-0000007", "notes"})
    fs::create_directory(inner + "/" + other);
  std::ofstream(inner + "/step_00000009") << "a file";
  const std::vector<std::string> expected = {inner + "/step_00000020", inner + "/step_00001000",
                                             inner + "/step_123456789"};
  EXPECT_EQ(list_checkpoints(system_env(), inner), expected);
  EXPECT_EQ(list_checkpoints(system_env(), run.path()), expected);
  EXPECT_EQ(list_checkpoints(system_env(), expected[1]), std::vector<std::string>{expected[1]});
  EXPECT_EQ(newest_checkpoint(system_env(), run.path(), nullptr), expected[2]);
  rotate_checkpoints(system_env(), inner, 0);
  EXPECT_EQ(list_checkpoints(system_env(), inner).size(), 3u);
  rotate_checkpoints(system_env(), inner, 2);
  EXPECT_EQ(list_checkpoints(system_env(), inner), (std::vector<std::string>{expected[1], expected[2]}));
  EXPECT_TRUE(fs::exists(inner + "/notes"));
}

// An Env that notes which files are opened for reading.
class ReadingEnv : public FaultEnv {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    read.push_back(path);
    return FaultEnv::open(path);
  }
  std::vector<std::string> read;
};

TEST(Folder, RotationBehindAWriterReadsNothing) {
  const TestFolder folder;
  TestContent source;
  ReadingEnv env;
  for (const int64_t step : {100, 200, 300}) {
    const std::string path = write_as_one(folder.path(), source.content(step));
    rotate_checkpoints(env, folder.path(), 2, path);
  }
  EXPECT_EQ(env.read, std::vector<std::string>{});
  EXPECT_EQ(system_env().list(folder.path()), (std::vector<std::string>{"step_00000200", "step_00000300"}));
  // One that is not there is no reason to keep nothing.
  rotate_checkpoints(env, folder.path(), 1, folder.file("step_00000900"));
  EXPECT_FALSE(env.read.empty());
  EXPECT_EQ(system_env().list(folder.path()), std::vector<std::string>{"step_00000300"});
}

// The one just written is kept even where a later one, which is damaged, counts as newer.
TEST(Folder, RotationKeepsTheOneJustWritten) {
  const TestFolder folder;
  TestContent source;
  const std::string later = write_as_one(folder.path(), source.content(300));
  std::ofstream(later + "/tokenizer.json") << "damaged";
  const std::string path = write_as_one(folder.path(), source.content(200));
  rotate_checkpoints(system_env(), folder.path(), 1, path);
  EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), nullptr), path);
}

TEST(Folder, LeftoversGoUnlessTheirWriterLives) {
  const TestFolder folder;
  TestContent source;
  write_as_one(folder.path(), source.content(100));
  const std::string dead = folder.file(".step_00000200.tmp-0123456789abcdef");
  for (const char* foreign : {".step_00000200.tmp-short", ".other.tmp-0123456789abcdef", ".git"})
    fs::create_directory(folder.file(foreign));
  fs::create_directory(dead);
  {
    const auto lock = FolderLock::try_take(folder.path());
    ASSERT_TRUE(lock.has_value());
    rotate_checkpoints(system_env(), folder.path(), 1);
    EXPECT_TRUE(fs::exists(dead));
    EXPECT_THROW(write_as_one(folder.path(), source.content(200)), IoError);
    EXPECT_TRUE(fs::exists(dead));
  }
  rotate_checkpoints(system_env(), folder.path(), 1);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_EQ(system_env().list(folder.path()).size(), 4u);
}

}  // namespace
}  // namespace athanor::tests::checkpoint_test
