#include "athanor/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "checkpoint/content.h"

namespace athanor {
namespace {

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
    for (const std::string& path : paths) EXPECT_EQ(path, folder.path() + "/step_00000100");
    EXPECT_EQ(system_env().list(folder.path()), std::vector<std::string>{"step_00000100"});
    const Checkpoint checkpoint = Checkpoint::open(system_env(), paths[0]);
    checkpoint.verify();
    source.expect_equal(checkpoint);
    if (ranks == 1) digest = checkpoint.digest();
    EXPECT_EQ(checkpoint.digest(), digest) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace athanor
