// Rounds of micro-batches added to partial sums: whatever the number of ranks, and of groups of ranks, the sums of one tree.
#include "athanor/parallel/data/accumulation_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"

namespace athanor::tests::round_plan_test {
namespace {

// Of numbers whose sum in another order has other bits.
double micro_batch_value(int64_t micro_batch) {
  return std::sin(static_cast<double>(micro_batch + 1)) * (micro_batch % 3 == 0 ? 1e9 : 1.0);
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
  for (int64_t micro_batches = 1; micro_batches <= 40; ++micro_batches) {
    std::vector<double> all;
    for (int64_t g = 0; g < micro_batches; ++g) all.push_back(micro_batch_value(g));
    for (int ranks = 1; ranks <= 9; ++ranks) {
      RoundPlanner planner({0, micro_batches}, micro_batches);
      std::vector<double> buffers(16, std::nan(""));  // nothing is read before it was written
      int64_t done = 0, rounds = 0;
      while (!planner.complete()) {
        const auto count = static_cast<int>(std::min<int64_t>(ranks, micro_batches - done));
        std::vector<double> rows(all.begin() + done, all.begin() + done + count);
        add_rows(planner, rows, buffers);
        done += count;
        ++rounds;
      }
      EXPECT_EQ(buffers[0], tree_sum(all)) << micro_batches << " micro-batches on " << ranks << " ranks";
      const auto log2_of = [](int64_t count) { return std::ceil(std::log2(static_cast<double>(count))); };
      const bool is_power = (ranks & (ranks - 1)) == 0;  // then a full round is a node
      EXPECT_LE(planner.num_buffers(), std::max(1.0, is_power ? log2_of(rounds) + 1 : log2_of(micro_batches)))
          << micro_batches << " micro-batches on " << ranks << " ranks";
    }
  }
}

TEST(RoundPlan, RefusesMicroBatchesBeyondTheLast) {
  RoundPlanner planner({0, 3}, 3);
  planner.next(2);
  EXPECT_THROW(planner.next(2), Error);
  EXPECT_THROW(planner.next(0), Error);
  EXPECT_FALSE(planner.complete());
}

// Groups of ranks with neighbouring micro-batches: what is left of each are nodes, which meet in the tree.
struct Summed {
  std::vector<LeafRange> nodes;
  std::vector<double> values;
};

// values [parts * num_micro_batches], part after part.
Summed sum_rounds(const LeafRange& micro_batches, int64_t num_micro_batches, int ranks,
                  const std::vector<double>& values, int parts = 1) {
  RoundPlanner planner(micro_batches, num_micro_batches, parts);
  std::vector<double> buffers(static_cast<size_t>(16 * parts), std::nan(""));
  for (int64_t first = micro_batches.first; first < micro_batches.second; first += ranks) {
    std::vector<double> rows;
    for (int64_t micro_batch = first; micro_batch < std::min(first + ranks, micro_batches.second);
         ++micro_batch)
      for (int part = 0; part < parts; ++part)
        rows.push_back(values[static_cast<size_t>(part * num_micro_batches + micro_batch)]);
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
  for (int64_t micro_batches = 1; micro_batches <= 23; ++micro_batches) {
    std::vector<double> values;
    for (int64_t g = 0; g < micro_batches; ++g) values.push_back(micro_batch_value(g));
    for (int groups = 1; groups <= std::min<int64_t>(4, micro_batches); ++groups)
      for (const int ranks : {1, 2, 3, 5}) {
        std::vector<LeafRange> nodes;
        std::vector<double> sums;
        for (int group = 0; group < groups; ++group) {
          const Summed part =
              sum_rounds(micro_batches_of_rank(micro_batches, groups, group), micro_batches, ranks, values);
          nodes.insert(nodes.end(), part.nodes.begin(), part.nodes.end());
          sums.insert(sums.end(), part.values.begin(), part.values.end());
        }
        for (const TreeAdd& add : plan_tree_sum(nodes, micro_batches))
          sums[static_cast<size_t>(add.into)] += sums[static_cast<size_t>(add.from)];
        EXPECT_EQ(sums[0], tree_sum(values))
            << micro_batches << " micro-batches, " << groups << " groups of " << ranks;
      }
  }
}

// Ranks that share the micro-batches' tokens: the tree over all parts, whoever computes how many micro-batches.
TEST(RoundPlan, PartsOfMicroBatchesAreLeavesOfOneTree) {
  for (int64_t micro_batches = 1; micro_batches <= 13; ++micro_batches)
    for (const int parts : {2, 3, 4}) {
      std::vector<double> values;
      for (int64_t leaf = 0; leaf < micro_batches * parts; ++leaf) values.push_back(micro_batch_value(leaf));
      for (const int ranks : {1, 2, 3, 5}) {
        const Summed sum = sum_rounds({0, micro_batches}, micro_batches, ranks, values, parts);
        ASSERT_EQ(sum.nodes.size(), 1U);
        EXPECT_EQ(sum.nodes[0], LeafRange(0, micro_batches * parts));
        EXPECT_EQ(sum.values[0], tree_sum(values))
            << micro_batches << " micro-batches in " << parts << " on " << ranks;
      }
    }
  RoundPlanner planner({0, 4}, 4, 2);
  EXPECT_THROW(planner.next(3), Error);
}

}  // namespace
}  // namespace athanor::tests::round_plan_test
