// Readers beside a run that removes and replaces its checkpoints, folders under other names, and what cannot be removed.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/checkpoint/format/steady_read.h"
#include "checkpoint/content.h"
#include "support/fault_env.h"

namespace athanor::tests::beside_test {
namespace {

namespace fs = std::filesystem;

std::string save(const std::string& folder, const TestContent& source, int64_t step) {
  const auto group = make_single_group();
  return write_checkpoint(system_env(), *group, folder, source.content(step));
}

// Does something before the n-th file is opened.
class BusyEnv : public FaultEnv {
 public:
  BusyEnv(int64_t at, std::function<void()> act) : at_(at), act_(std::move(act)) {}
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    if (opened_++ == at_) act_();
    return FaultEnv::open(path);
  }
  int64_t opened() const { return opened_; }

 private:
  int64_t at_, opened_ = 0;
  std::function<void()> act_;
};

class Beside : public ::testing::Test {
 protected:
  Beside() {
    save(made.file("a"), source, 100);
    save(made.file("a"), source, 200);
    source.tensors[0].tensor.data<float>()[0] += 1.0f;
    save(made.file("b"), source, 100);
    put("a/step_00000100");
  }
  void put(const std::string& name) const {
    fs::copy(made.file(name), folder.file(name.substr(2)), fs::copy_options::recursive);
  }
  // The step after; or, once more, another one of the same step.
  void go_on(bool replace) const {
    if (!replace) put("a/step_00000200");
    remove_folder(system_env(), old_);
    if (replace) put("b/step_00000100");
  }
  void begin_again() const {
    fs::remove_all(old_);
    fs::remove_all(new_);
    put("a/step_00000100");
  }
  const TestFolder made, folder;
  TestContent source;
  const std::string old_ = folder.file("step_00000100"), new_ = folder.file("step_00000200");
};

// Whatever was being read when the run went on: the newest is found, and nothing is called damaged.
TEST_F(Beside, WhatVanishesOrIsReplacedIsNotDamaged) {
  for (const bool replace : {false, true}) {
    int64_t at = 0;
    for (bool happened = true; happened; ++at) {
      begin_again();
      BusyEnv env(at, [&] { go_on(replace); });
      std::vector<std::string> skipped;
      const auto newest = newest_checkpoint(env, folder.path(), &skipped);
      happened = env.opened() > at;
      ASSERT_TRUE(newest.has_value()) << at;
      EXPECT_TRUE(skipped.empty()) << at << ": " << skipped.front();
    }
    EXPECT_GT(at, 4);
  }
}

TEST_F(Beside, ReadingIsTriedAgainWithTheNewest) {
  int64_t at = 0, tries = 0;
  for (bool happened = true; happened; ++at) {
    begin_again();
    BusyEnv env(at, [&] { go_on(false); });
    std::string read;
    tries = 0;
    read_steadily(
        env, [&] { return system_env().exists(new_) ? new_ : old_; },
        [&](const std::string& path) {
          ++tries;
          Checkpoint::open(env, path).verify();
          read = path;
        });
    happened = env.opened() > at;
    EXPECT_TRUE(read == old_ || read == new_) << read;
    EXPECT_LE(tries, 2);
  }
  EXPECT_GT(at, 4);
}

TEST_F(Beside, DamageIsStillDamage) {
  std::ofstream(old_ + "/tokenizer.json") << "other";
  int tries = 0;
  EXPECT_THROW(read_steadily(
                   system_env(), [&] { return old_; },
                   [&](const std::string& path) {
                     ++tries;
                     Checkpoint::open(system_env(), path).verify();
                   }),
               Error);
  EXPECT_EQ(tries, 1);
  std::vector<std::string> skipped;
  EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), &skipped), std::nullopt);
  EXPECT_EQ(skipped.size(), 1u);
}

struct Renaming {
  const char* name;
  std::vector<std::pair<int64_t, int64_t>> steps;  // of the name, of the content
  int64_t newest;                                  // name
  size_t notes;
};

// What counts is the step that a checkpoint holds.
TEST(RenamedCheckpoint, IsReadWhereItWasFound) {
  for (const Renaming& c : std::vector<Renaming>{{"alone", {{20, 10}}, 20, 1},
                                                 {"higher_name_newest_content", {{5, 5}, {20, 10}}, 20, 1},
                                                 {"higher_name_older_content", {{15, 15}, {20, 10}}, 15, 1},
                                                 {"lower_name", {{3, 10}}, 3, 1},
                                                 {"two_of_them", {{20, 10}, {30, 12}}, 30, 2},
                                                 {"none", {{5, 5}, {10, 10}}, 10, 0}}) {
    const TestFolder folder;
    const TestContent source;
    for (const auto& [named, held] : c.steps) {
      const std::string path = save(folder.path(), source, held);
      if (named != held) fs::rename(path, folder.file(checkpoint_name(named)));
    }
    std::vector<std::string> notes;
    EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), &notes), folder.file(checkpoint_name(c.newest)))
        << c.name;
    EXPECT_EQ(notes.size(), c.notes) << c.name;
    for (const std::string& note : notes) EXPECT_NE(note.find("holds step 1"), std::string::npos) << note;
  }
}

// A folder that the system does not let go of.
class StuckEnv : public FaultEnv {
 public:
  explicit StuckEnv(std::string path, bool moves) : path_(std::move(path)), moves_(moves) {}
  void rename(const std::string& from, const std::string& to) override {
    if (from == path_ && !moves_) throw IoError("cannot rename '" + from + "'", EPERM);
    FaultEnv::rename(from, to);
  }
  void remove_all(const std::string& path) override {
    if (path.find("step_00000100") != std::string::npos) throw IoError("cannot remove '" + path + "'", EPERM);
    FaultEnv::remove_all(path);
  }

 private:
  std::string path_;
  bool moves_;
};

TEST_F(Beside, WhatCannotBeRemovedIsSaidAndTriedAgain) {
  for (const bool moves : {false, true}) {
    const TestFolder other;
    const std::string stuck = save(other.path(), source, 100);
    save(other.path(), source, 200);
    const std::string newest = save(other.path(), source, 300);
    StuckEnv env(stuck, moves);
    for (int time = 0; time < 2; ++time) {
      const auto said = rotate_checkpoints(env, other.path(), 1, newest);
      ASSERT_EQ(said.size(), 1u) << moves;
      EXPECT_NE(said[0].find("step_00000100"), std::string::npos) << said[0];
      EXPECT_FALSE(fs::exists(other.file("step_00000200")));
    }
    const auto group = make_single_group();
    EXPECT_NO_THROW(write_checkpoint(env, *group, other.path(), source.content(400)));
    EXPECT_TRUE(rotate_checkpoints(system_env(), other.path(), 1).empty());
    EXPECT_EQ(system_env().list(other.path()), std::vector<std::string>{"step_00000400"}) << moves;
  }
}

TEST(FolderLockHolder, IsThisProcess) {
  const TestFolder folder;
  EXPECT_EQ(lock_holder(folder.path()), std::nullopt);
  const auto lock = FolderLock::try_take(folder.path());
  ASSERT_TRUE(lock.has_value());
  EXPECT_EQ(lock_holder(folder.path()), getpid());
}

}  // namespace
}  // namespace athanor::tests::beside_test
