// Rounds of grains added to partial sums: whatever the number of ranks, and of groups of ranks, the sums of one tree.
#include "athanor/parallel/round_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"

namespace athanor {
namespace {

// Of numbers whose sum in another order has other bits.
double grain_value(int64_t grain) {
  return std::sin(static_cast<double>(grain + 1)) * (grain % 3 == 0 ? 1e9 : 1.0);
}

double& at(const RoundPlan::Place& place, std::vector<double>& rows, std::vector<double>& buffers) {
  return (place.is_row ? rows : buffers).at(static_cast<size_t>(place.index));
}

void add_rows(RoundPlanner& planner, std::vector<double>& rows, std::vector<double>& buffers) {
  for (const RoundPlan::Add& add : planner.next(static_cast<int>(rows.size())).adds) {
    double& into = at(add.into, rows, buffers);
    into = (add.copy ? 0.0 : into) + at(add.from, rows, buffers);
  }
}

TEST(RoundPlan, GivesTheBitsOfTheTree) {
  for (int64_t grains = 1; grains <= 40; ++grains) {
    std::vector<double> all;
    for (int64_t g = 0; g < grains; ++g) all.push_back(grain_value(g));
    for (int ranks = 1; ranks <= 9; ++ranks) {
      RoundPlanner planner({0, grains}, grains);
      std::vector<double> buffers(16, std::nan(""));  // nothing is read before it was written
      int64_t done = 0, rounds = 0;
      while (!planner.complete()) {
        const auto count = static_cast<int>(std::min<int64_t>(ranks, grains - done));
        std::vector<double> rows(all.begin() + done, all.begin() + done + count);
        add_rows(planner, rows, buffers);
        done += count;
        ++rounds;
      }
      EXPECT_EQ(buffers[0], tree_sum(all)) << grains << " micro-batches on " << ranks << " ranks";
      const auto log2_of = [](int64_t count) { return std::ceil(std::log2(static_cast<double>(count))); };
      const bool is_power = (ranks & (ranks - 1)) == 0;  // then a full round is a node
      EXPECT_LE(planner.num_buffers(), std::max(1.0, is_power ? log2_of(rounds) + 1 : log2_of(grains)))
          << grains << " micro-batches on " << ranks << " ranks";
    }
  }
}

TEST(RoundPlan, RefusesGrainsBeyondTheLast) {
  RoundPlanner planner({0, 3}, 3);
  planner.next(2);
  EXPECT_THROW(planner.next(2), Error);
  EXPECT_THROW(planner.next(0), Error);
  EXPECT_FALSE(planner.complete());
}

// Groups of ranks with neighbouring grains: what is left of each are nodes, which meet in the tree.
struct Summed {
  std::vector<LeafRange> nodes;
  std::vector<double> values;
};

// values [parts * num_grains], part after part.
Summed sum_rounds(const LeafRange& grains, int64_t num_grains, int ranks, const std::vector<double>& values,
                  int parts = 1) {
  RoundPlanner planner(grains, num_grains, parts);
  std::vector<double> buffers(static_cast<size_t>(16 * parts), std::nan(""));
  for (int64_t first = grains.first; first < grains.second; first += ranks) {
    std::vector<double> rows;
    for (int64_t grain = first; grain < std::min(first + ranks, grains.second); ++grain)
      for (int part = 0; part < parts; ++part)
        rows.push_back(values[static_cast<size_t>(part * num_grains + grain)]);
    add_rows(planner, rows, buffers);
  }
  EXPECT_TRUE(planner.complete());
  EXPECT_THROW(planner.next(parts), Error);
  Summed summed;
  for (const RoundPlanner::Node& node : planner.left()) {
    EXPECT_LT(node.buffer, planner.num_buffers());
    summed.nodes.push_back(node.range);
    summed.values.push_back(buffers.at(static_cast<size_t>(node.buffer)));
  }
  return summed;
}

TEST(RoundPlan, AnyGroupsOfAnyRanksGiveTheTree) {
  for (int64_t grains = 1; grains <= 23; ++grains) {
    std::vector<double> values;
    for (int64_t g = 0; g < grains; ++g) values.push_back(grain_value(g));
    for (int groups = 1; groups <= std::min<int64_t>(4, grains); ++groups)
      for (const int ranks : {1, 2, 3, 5}) {
        std::vector<LeafRange> nodes;
        std::vector<double> sums;
        for (int group = 0; group < groups; ++group) {
          const Summed part = sum_rounds(grains_of_rank(grains, groups, group), grains, ranks, values);
          nodes.insert(nodes.end(), part.nodes.begin(), part.nodes.end());
          sums.insert(sums.end(), part.values.begin(), part.values.end());
        }
        for (const TreeAdd& add : plan_tree_sum(nodes, grains))
          sums[static_cast<size_t>(add.into)] += sums[static_cast<size_t>(add.from)];
        EXPECT_EQ(sums[0], tree_sum(values))
            << grains << " micro-batches, " << groups << " groups of " << ranks;
      }
  }
}

// Ranks that share the grains' tokens: the tree over all parts, whoever computes how many grains.
TEST(RoundPlan, PartsOfGrainsAreLeavesOfOneTree) {
  for (int64_t grains = 1; grains <= 13; ++grains)
    for (const int parts : {2, 3, 4}) {
      std::vector<double> values;
      for (int64_t leaf = 0; leaf < grains * parts; ++leaf) values.push_back(grain_value(leaf));
      for (const int ranks : {1, 2, 3, 5}) {
        const Summed sum = sum_rounds({0, grains}, grains, ranks, values, parts);
        ASSERT_EQ(sum.nodes.size(), 1U);
        EXPECT_EQ(sum.nodes[0], LeafRange(0, grains * parts));
        EXPECT_EQ(sum.values[0], tree_sum(values))
            << grains << " micro-batches in " << parts << " on " << ranks;
      }
    }
  RoundPlanner planner({0, 4}, 4, 2);
  EXPECT_THROW(planner.next(3), Error);
}

}  // namespace
}  // namespace athanor
