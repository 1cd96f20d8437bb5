// What `verify --all-layouts` walks.
#include "athanor/layout/enumerate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "layout/small_model.h"

namespace athanor::tests::enumerate_test {
namespace {

using ::testing::ElementsAre;

TEST(Enumerate, CountsWhatIsLegalAndWhatIsRefusedByReason) {
  const Enumeration walk = enumerate(asked([](auto&) {}), 2);
  // One rank; two of dp, tp (with sp or without), cp of two kinds, pp of seven schedules: 4 stages of ZeRO, 3
  // recomputes.
  EXPECT_EQ(std::ssize(walk.legal), 12 * (1 + 1 + 2 + 2 + 7));
  EXPECT_EQ(walk.refused,
            (std::map<std::string, int64_t>{
                {"parallel.sp: got true with parallel.tp = N, expected false", 12 * (1 + 1 + 2 + 7)}}));
  for (const Layout& each : walk.legal)
    EXPECT_EQ(make_layout(in_layout(asked([](auto&) {}), each), {.world_size = each.world_size()}), each);
}

TEST(Enumerate, ASampleHasEveryPairOfValues) {
  Config config = asked([](auto&) {}, "moe");
  config.model.num_experts = 4;
  const std::vector<Layout> legal = enumerate(config, 4).legal;
  const auto pairs_of = [](const Layout& each, std::set<std::pair<std::string, std::string>>& pairs) {
    const std::vector<std::string> values = axis_values(each);
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b) pairs.emplace(values[a], values[b]);
  };
  std::set<std::pair<std::string, std::string>> all, spanned;
  for (const Layout& each : legal) pairs_of(each, all);
  const std::vector<size_t> sample = spanning_sample(legal, 1, 1);
  for (const size_t i : sample) pairs_of(legal.at(i), spanned);
  EXPECT_EQ(spanned, all);
  EXPECT_LT(sample.size(), legal.size() / 10);
  EXPECT_TRUE(std::ranges::is_sorted(sample));
  EXPECT_EQ(sample, spanning_sample(legal, 1, 1));
  EXPECT_NE(sample, spanning_sample(legal, 1, 2));
  EXPECT_EQ(std::ssize(spanning_sample(legal, 200, 1)), 200);
  EXPECT_EQ(spanning_sample(legal, legal.size() + 5, 1).size(), legal.size());
  EXPECT_TRUE(spanning_sample({}, 3, 1).empty());
}

TEST(Enumerate, SaysWhatALayoutIs) {
  const Layout layout{.pp = 2,
                      .shard = 2,
                      .cp = 3,
                      .tp = 2,
                      .ep = 4,
                      .schedule = "zb-v",
                      .sp = true,
                      .zero_stage = 3,
                      .recompute = "full"};
  EXPECT_EQ(layout.text(), "pp 2 zb-v dp 2 tp 2 sp cp 3 ring ep 4 zero 3 reduce fast recompute full");
  EXPECT_THAT(axis_values(layout), ElementsAre("pp 2", "zb-v", "dp 2", "tp 2", "sp", "cp 3 ring", "ep 4",
                                               "zero 3", "recompute full"));
  EXPECT_EQ(layout.world_size(), 24);
}

TEST(Enumerate, LawOneSaysWhichLayoutsKeepTheBits) {
  Layout layout{.pp = 4, .zero_stage = 3};
  EXPECT_TRUE(layout.keeps_order());
  layout.shard = 2;
  EXPECT_FALSE(layout.keeps_order()) << "fast sums";
  layout.tree = true;
  EXPECT_TRUE(layout.keeps_order());
  for (int Layout::*axis : {&Layout::tp, &Layout::cp, &Layout::ep}) {
    Layout other = layout;
    other.*axis = 2;
    EXPECT_FALSE(other.keeps_order());
  }
}

}  // namespace
}  // namespace athanor::tests::enumerate_test
