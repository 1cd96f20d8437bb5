#include "athanor/run/processor_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/check.h"
#include "athanor/comm/shm/thread.h"

namespace athanor::tests::processor_share_test {
namespace {

using ::testing::ElementsAre;

struct Rank {
  std::string host;
  std::vector<int> processors;
};

// "RANK of RANKS" of each rank.
std::vector<std::string> shares(const std::vector<Rank>& ranks) {
  std::vector<std::string> texts(ranks.size());
  run_ranks(make_thread_groups(static_cast<int>(ranks.size())), [&](Group& group) {
    const auto& mine = ranks[static_cast<size_t>(group.rank())];
    std::vector<Core> cores;
    for (const int processor : mine.processors) cores.push_back({.processors = {processor}});
    const ProcessorShare share = share_of_processors(group, mine.host, cores);
    texts[static_cast<size_t>(group.rank())] = fmt::format("{} of {}", share.rank, share.ranks);
  });
  return texts;
}

TEST(ProcessorShare, OfRanksThatAllHaveAllProcessors) {
  EXPECT_THAT(shares({{"a", {0, 1}}}), ElementsAre("0 of 1"));
  EXPECT_THAT(shares({{"a", {0, 1}}, {"a", {0, 1}}, {"a", {0, 1}}}),
              ElementsAre("0 of 3", "1 of 3", "2 of 3"));
}

TEST(ProcessorShare, IsAllOfItWhereEachRankHasItsOwn) {
  EXPECT_THAT(shares({{"a", {0, 1}}, {"a", {2, 3}}, {"a", {64, 65}}}),
              ElementsAre("0 of 1", "0 of 1", "0 of 1"));
  EXPECT_THAT(shares({{"a", {5000}}, {"a", {5000}}}),
              ElementsAre("0 of 1", "0 of 1"));  // beyond what is told
}

TEST(ProcessorShare, IsAmongTheRanksOfASocket) {
  EXPECT_THAT(shares({{"a", {0, 1}}, {"a", {2, 3}}, {"a", {0, 1}}, {"a", {2, 3}}}),
              ElementsAre("0 of 2", "0 of 2", "1 of 2", "1 of 2"));
  EXPECT_THAT(shares({{"a", {0, 1, 2}}, {"a", {2, 3}}, {"a", {3, 4}}}),
              ElementsAre("0 of 2", "1 of 3", "1 of 2"));
}

TEST(ProcessorShare, EndsWithTheHost) {
  EXPECT_THAT(shares({{"a", {0, 1}}, {"b", {0, 1}}, {"a", {0, 1}}}),
              ElementsAre("0 of 2", "0 of 1", "1 of 2"));
}

TEST(ProcessorShare, IsAmongAllOfTheHostWhereItCannotBeRead) {
  EXPECT_THAT(shares({{"a", {}}, {"a", {}}, {"b", {}}}), ElementsAre("0 of 2", "1 of 2", "0 of 1"));
}

TEST(ProcessorShare, AHostHasOneIdentity) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_GT(host_identity().size(), 2U);
}

}  // namespace
}  // namespace athanor::tests::processor_share_test
