// What trials draw: the same for a seed, of every kind and rank, and what each kind promises of its ranks.
#include "athanor/chaos/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "athanor/base/error.h"
#include "athanor/chaos/faults.h"

namespace athanor::tests::chaos_draw_test {
namespace {

using ::testing::HasSubstr;

bool equal(const Draw& a, const Draw& b) {
  return a.trial == b.trial && a.fault == b.fault && a.ranks == b.ranks && a.instant == b.instant &&
         a.second == b.second;
}

TEST(Draw, IsAFunctionOfSeedAndTrial) {
  const auto faults = find_faults({}, 4);
  int others = 0;
  for (int64_t trial = 0; trial < 50; ++trial) {
    const Draw draw = draw_trial(7, trial, faults, 4);
    EXPECT_TRUE(equal(draw, draw_trial(7, trial, faults, 4)));
    others += equal(draw, draw_trial(8, trial, faults, 4)) ? 0 : 1;
  }
  EXPECT_EQ(others, 50);
}

// A change of the draws would make old seeds other trials.
TEST(Draw, SeedsKeepTheirTrials) {
  const Draw draw = draw_trial(1, 0, {&kill_fault()}, 3);
  EXPECT_EQ(draw.ranks, std::vector<int>{2});
  EXPECT_DOUBLE_EQ(draw.instant, 0.42401513518091871);
}

TEST(Draw, ReachesEveryKindRankAndTime) {
  const auto faults = find_faults({}, 4);
  std::map<size_t, int> kinds;
  std::map<int, int> ranks;
  std::map<int, int> tenths;
  for (int64_t trial = 0; trial < 2000; ++trial) {
    const Draw draw = draw_trial(3, trial, faults, 4);
    ++kinds[draw.fault];
    ++tenths[static_cast<int>(draw.instant * 10)];
    ASSERT_GE(draw.instant, 0.0);
    ASSERT_LT(draw.instant, 1.0);
    if (faults[draw.fault] == &kill_fault()) ++ranks[draw.ranks.at(0)];
  }
  EXPECT_EQ(kinds.size(), faults.size());
  EXPECT_EQ(ranks.size(), 4u);
  EXPECT_EQ(tenths.size(), 10u);
  for (const auto& [tenth, count] : tenths) EXPECT_NEAR(count, 200, 70) << tenth;
}

TEST(Draw, RanksOfEachKind) {
  for (int size = 3; size < 7; ++size)
    for (int64_t trial = 0; trial < 200; ++trial) {
      const auto draw = [&](const chaos::Fault& fault) { return draw_trial(5, trial, {&fault}, size).ranks; };
      const auto distinct = [&](const std::vector<int>& ranks) {
        return std::set<int>(ranks.begin(), ranks.end()).size() == ranks.size() &&
               std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return rank >= 0 && rank < size; });
      };
      EXPECT_EQ(draw(kill_fault()).size(), 1u);
      EXPECT_EQ(draw(kill_all_fault()).size(), static_cast<size_t>(size));
      EXPECT_TRUE(distinct(draw(kill_all_fault())));
      EXPECT_EQ(draw(kill_again_fault()).size(), 2u);
      EXPECT_TRUE(distinct(draw(kill_again_fault())));
      const auto several = draw(kill_several_fault());
      EXPECT_TRUE(distinct(several));
      EXPECT_THAT(several, ::testing::Contains(0));
      EXPECT_GE(several.size(), 2u);
      EXPECT_LT(several.size(), static_cast<size_t>(size));
      EXPECT_TRUE(draw(stop_term_fault()).empty());
    }
}

TEST(Draw, ControlsAreNoTrials) {
  const auto faults = find_faults({"kill", "stop-term"}, 2);
  EXPECT_TRUE(equal(draw_control(1, 0, faults, 2), draw_control(1, 0, faults, 2)));
  EXPECT_EQ(draw_control(1, 1, faults, 2).fault, 1u);
  EXPECT_NE(draw_control(1, 0, faults, 2).instant, draw_trial(1, 0, faults, 2).instant);
  for (uint64_t seed = 0; seed < 200; ++seed) EXPECT_LT(draw_control(seed, 0, faults, 2).instant, 0.9);
}

TEST(Faults, EachHasANameAndSaysWhatItIs) {
  std::set<std::string> names;
  for (const chaos::Fault* fault : all_faults()) {
    const FaultText text = fault->text();
    names.insert(text.name);
    for (const char* words : {text.name, text.what, text.must, text.control})
      EXPECT_GT(std::string(words).size(), 3u) << text.name;
    if (fault->unavailable().empty()) {
      EXPECT_EQ(find_faults({text.name}, 8), std::vector<const chaos::Fault*>{fault});
    } else {
      EXPECT_THROW(find_faults({text.name}, 8), ConfigError) << text.name;
    }
  }
  EXPECT_EQ(names.size(), all_faults().size());
}

TEST(Faults, WhatIsRefused) {
  const auto message = [](const std::vector<std::string>& names, int ranks) {
    try {
      find_faults(names, ranks);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message({"kil"}, 2), HasSubstr("'kil'"));
  EXPECT_THAT(message({"kil"}, 2), HasSubstr("'kill'"));
  EXPECT_THAT(message({"kill-several"}, 2), HasSubstr("-n 3"));
  const auto can_be_done = [](const chaos::Fault* fault) {
    return fault->least_ranks() <= 2 && fault->unavailable().empty();
  };
  EXPECT_EQ(std::ssize(find_faults({}, 2)),
            std::count_if(all_faults().begin(), all_faults().end(), can_be_done));
  EXPECT_EQ(find_faults({"kill", "kill"}, 2).size(), 1u);
}

}  // namespace
}  // namespace athanor::tests::chaos_draw_test
