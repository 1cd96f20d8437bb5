// What survives a kill, a full disk or a failing rank, at every point where one can strike.
#include <gtest/gtest.h>

#include "checkpoint/content.h"
#include "support/fault_env.h"
#include "support/power_env.h"

namespace athanor::tests::fault_test {
namespace {

using Fault = FaultEnv::Fault;

std::string write_step(Env& env, const std::string& folder, const TestContent& source, int64_t step) {
  const auto group = make_single_group();
  return write_checkpoint(env, *group, folder, source.content(step));
}

std::vector<std::string> names(const std::string& folder) {
  return system_env().list(folder);
}

class WriteFault : public ::testing::TestWithParam<Fault> {};

TEST_P(WriteFault, LeavesTheWholeNewOneOrNoneAndNeverTouchesTheOld) {
  FaultEnv calm;
  TestContent old_source, new_source;
  new_source.tensors[0].tensor.data<float>()[0] += 1.0f;
  int64_t fail_at = 0, committed = 0;
  for (bool failed = true; failed; ++fail_at) {
    const TestFolder folder;
    write_step(calm, folder.path(), old_source, 100);
    const std::string old_digest = Checkpoint::open(system_env(), folder.file("step_00000100")).digest();
    FaultEnv env(fail_at, GetParam());
    std::string message;
    try {
      write_step(env, folder.path(), new_source, 200);
    } catch (const IoError& error) {
      message = error.what();
    }
    failed = env.failed();
    const auto newest = newest_checkpoint(system_env(), folder.path(), nullptr);
    ASSERT_TRUE(newest.has_value());
    EXPECT_EQ(Checkpoint::open(system_env(), folder.file("step_00000100")).digest(), old_digest);
    const bool arrived = system_env().exists(folder.file("step_00000200"));
    EXPECT_EQ(*newest, folder.file(arrived ? "step_00000200" : "step_00000100")) << "call " << fail_at;
    if (arrived) new_source.expect_equal(Checkpoint::open(system_env(), *newest));
    committed += arrived;
    if (GetParam() == Fault::once && failed) {
      EXPECT_EQ(message, "injected fault") << "call " << fail_at;
      if (!arrived) {
        EXPECT_EQ(names(folder.path()), std::vector<std::string>{"step_00000100"}) << fail_at;
      }
    }
    // Whatever is left over, the next writer gets through and cleans up.
    write_step(calm, folder.path(), new_source, 300);
    rotate_checkpoints(system_env(), folder.path(), 1);
    EXPECT_EQ(names(folder.path()), std::vector<std::string>{"step_00000300"}) << "call " << fail_at;
  }
  EXPECT_GT(fail_at, 20);   // every call was hit once, the last round had no fault
  EXPECT_GE(committed, 2);  // that round, and the fault behind the rename
}

TEST_P(WriteFault, ReplacingOneOfTheSameStepKeepsTheOldUntilTheNewIsThere) {
  FaultEnv calm;
  TestContent old_source, new_source;
  new_source.tensors[0].tensor.data<float>()[0] += 1.0f;
  int64_t fail_at = 0, kept = 0, replaced = 0;
  for (bool failed = true; failed; ++fail_at) {
    const TestFolder folder;
    write_step(calm, folder.path(), old_source, 100);
    FaultEnv env(fail_at, GetParam());
    try {
      write_step(env, folder.path(), new_source, 100);
    } catch (const IoError&) {
    }
    failed = env.failed();
    const auto found = list_checkpoints(system_env(), folder.path());
    ASSERT_EQ(found.size(), 1u) << "call " << fail_at;
    const auto newest = newest_checkpoint(system_env(), folder.path(), nullptr);
    ASSERT_TRUE(newest.has_value()) << "call " << fail_at;
    float first = 0.0f;
    std::vector<float> values(35);
    Checkpoint::open(system_env(), *newest).read("model.part0", values.data());
    first = values[0];
    const bool is_new = first == new_source.tensors[0].tensor.data<float>()[0];
    EXPECT_TRUE(is_new || first == old_source.tensors[0].tensor.data<float>()[0]);
    ++(is_new ? replaced : kept);
    rotate_checkpoints(system_env(), folder.path(), 3);
    EXPECT_EQ(names(folder.path()), std::vector<std::string>{"step_00000100"}) << "call " << fail_at;
    EXPECT_TRUE(newest_checkpoint(system_env(), folder.path(), nullptr).has_value());
  }
  EXPECT_GT(kept, 10);
  EXPECT_GE(replaced, 2);
}

TEST_P(WriteFault, RotationNeverLosesTheNewest) {
  FaultEnv calm;
  TestContent source;
  int64_t fail_at = 0;
  for (bool failed = true; failed; ++fail_at) {
    const TestFolder folder;
    for (const int64_t step : {100, 200, 300}) write_step(calm, folder.path(), source, step);
    FaultEnv env(fail_at, GetParam());
    try {
      rotate_checkpoints(env, folder.path(), 1);
    } catch (const IoError&) {
    }
    failed = env.failed();
    EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), nullptr), folder.file("step_00000300"));
    for (const std::string& path : list_checkpoints(system_env(), folder.path()))
      EXPECT_NO_THROW(Checkpoint::open(system_env(), path).verify()) << path << " is half removed";
    rotate_checkpoints(system_env(), folder.path(), 1);
    EXPECT_EQ(names(folder.path()), std::vector<std::string>{"step_00000300"}) << "call " << fail_at;
  }
  EXPECT_GE(fail_at, 4);
}

INSTANTIATE_TEST_SUITE_P(All, WriteFault, ::testing::Values(Fault::kill, Fault::once),
                         [](const auto& each) { return each.param == Fault::kill ? "kill" : "once"; });

// The power fails at any call, or right after the last one: what was said to be saved is there, and so is
// what was there before.
TEST(PowerCut, LosesNothingThatWasSaved) {
  TestContent old_source, new_source;
  new_source.tensors[0].tensor.data<float>()[0] += 1.0f;
  FaultEnv calm;
  for (const int64_t new_step : {200, 100}) {
    int64_t fail_at = 0, arrived = 0;
    for (bool failed = true; failed; ++fail_at) {
      const TestFolder folder;
      write_step(calm, folder.path(), old_source, 100);
      PowerEnv env(folder.path(), fail_at);
      bool saved = true;
      try {
        write_step(env, folder.path(), new_source, new_step);
      } catch (const IoError&) {
        saved = false;
      }
      failed = env.failed();
      env.cut();
      std::vector<std::string> skipped;
      const auto newest = newest_checkpoint(system_env(), folder.path(), &skipped);
      ASSERT_TRUE(newest.has_value()) << "call " << fail_at;
      EXPECT_TRUE(skipped.empty()) << "call " << fail_at << ": " << skipped[0];
      std::vector<float> values(35);
      const Checkpoint checkpoint = Checkpoint::open(system_env(), *newest);
      checkpoint.read("model.part0", values.data());
      const bool is_new = values[0] == new_source.tensors[0].tensor.data<float>()[0];
      if (saved) {
        EXPECT_TRUE(is_new) << "call " << fail_at;
      }
      arrived += is_new;
      if (new_step == 200) {
        EXPECT_NO_THROW(Checkpoint::open(system_env(), folder.file("step_00000100")).verify());
      }
    }
    EXPECT_GE(arrived, 1);
    EXPECT_GT(fail_at, 15);  // calls that change the disk
  }
}

// One rank's disk is full: all ranks throw, say which rank it was, and nothing is left behind.
TEST(RankFault, IsEveryRanksFault) {
  FaultEnv calm;
  constexpr int kRanks = 3;
  for (int broken = 0; broken < kRanks; ++broken) {
    for (int64_t fail_at = 0; fail_at < 40; ++fail_at) {
      const TestFolder folder;
      TestContent source;
      write_step(calm, folder.path(), source, 100);
      const auto groups = make_thread_groups(kRanks);
      std::vector<std::string> messages(kRanks);
      std::atomic<bool> failed = false;
      run_ranks(groups, [&](Group& group) {
        FaultEnv env(group.rank() == broken ? fail_at : FaultEnv::kNever, Fault::once);
        auto& message = messages[static_cast<size_t>(group.rank())];
        try {
          write_checkpoint(env, group, folder.path(), source.content(200));
        } catch (const IoError& error) {
          EXPECT_EQ(error.code(), ENOSPC);
          message = error.what();
        }
        if (env.failed()) failed = true;
      });
      if (!failed) {
        EXPECT_GT(fail_at, 3);
        break;
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        const std::string expected =
            rank == broken ? "injected fault" : fmt::format("checkpoint: rank {}: injected fault", broken);
        EXPECT_EQ(messages[static_cast<size_t>(rank)], expected)
            << "call " << fail_at << " of rank " << broken;
      }
      EXPECT_TRUE(newest_checkpoint(system_env(), folder.path(), nullptr).has_value());
      rotate_checkpoints(system_env(), folder.path(), 0);
      for (const std::string& name : names(folder.path())) EXPECT_EQ(name.substr(0, 5), "step_");
    }
  }
}

TEST(RankFault, ContentThatDiffersBetweenRanksIsRefused) {
  const auto refused = [](const std::function<void(CheckpointContent&)>& change) {
    const TestFolder folder;
    const auto groups = make_thread_groups(2);
    std::atomic<int> refusals = 0;
    run_ranks(groups, [&](Group& group) {
      TestContent source;
      CheckpointContent content = source.content(100);
      if (group.rank() == 1) change(content);
      try {
        write_checkpoint(system_env(), group, folder.path(), content);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("rank"), std::string::npos);
        ++refusals;
      }
    });
    EXPECT_TRUE(names(folder.path()).empty());
    return refusals == 2;
  };
  EXPECT_TRUE(refused([](CheckpointContent& c) { c.step = 101; }));
  EXPECT_TRUE(refused([](CheckpointContent& c) { c.state = R"({"step":100})"; }));
  EXPECT_TRUE(refused([](CheckpointContent& c) { c.tensors[0].tensor = c.tensors[0].tensor.view({5, 7}); }));
}

}  // namespace
}  // namespace athanor::tests::fault_test
