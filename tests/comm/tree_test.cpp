#include "athanor/comm/tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "athanor/base/error.h"

namespace athanor::tests::tree_test {
namespace {

// The definition, read off the header: node (level, i) over the leaves that exist.
double node_value(const std::vector<double>& leaves, int level, int64_t i) {
  if (level == 0) return leaves[static_cast<size_t>(i)];
  const double left = node_value(leaves, level - 1, 2 * i);
  const int64_t right_first = (2 * i + 1) << (level - 1);
  if (right_first >= static_cast<int64_t>(leaves.size())) return left;
  return left + node_value(leaves, level - 1, 2 * i + 1);
}

int levels_of(int64_t n) {
  int level = 0;
  while ((int64_t{1} << level) < n) ++level;
  return level;
}

// Values whose sum depends on the order of the additions.
std::vector<double> awkward(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back((i % 3 == 0 ? 1e16 : 1.0) * std::sin(static_cast<double>(i + 1)) / 3.0);
  return values;
}

double value_of(const std::vector<double>& leaves, const LeafRange& range) {
  const auto n = static_cast<int64_t>(leaves.size());
  for (int level = 0; level <= levels_of(n); ++level)
    for (int64_t i = 0; (i << level) < n; ++i)
      if ((i << level) == range.first && std::min((i + 1) << level, n) == range.second)
        return node_value(leaves, level, i);
  ADD_FAILURE() << "[" << range.first << ", " << range.second << ") is no node over " << n << " leaves";
  return 0;
}

double run_plan(const std::vector<double>& leaves, const std::vector<LeafRange>& nodes) {
  std::vector<double> values;
  for (const auto& node : nodes) values.push_back(value_of(leaves, node));
  for (const auto& add : plan_tree_sum(nodes, static_cast<int64_t>(leaves.size())))
    values[static_cast<size_t>(add.into)] += values[static_cast<size_t>(add.from)];
  return values[0];
}

TEST(Tree, SumIsTheDefinition) {
  EXPECT_EQ(tree_sum({}), 0.0);
  for (int64_t n = 1; n <= 64; ++n) {
    const auto leaves = awkward(n);
    EXPECT_EQ(tree_sum(leaves), node_value(leaves, levels_of(n), 0)) << n;
  }
}

TEST(Tree, OrderMatters) {  // else the other tests would prove nothing
  const auto leaves = awkward(13);
  double serial = 0;
  for (double leaf : leaves) serial += leaf;
  EXPECT_NE(tree_sum(leaves), serial);
}

TEST(Tree, CoverIsExactAndSmall) {
  for (int64_t n = 1; n <= 64; ++n)
    for (int64_t first = 0; first <= n; ++first)
      for (int64_t last = first; last <= n; ++last) {
        const auto nodes = cover_nodes(first, last, n);
        int64_t at = first;
        for (const auto& node : nodes) {
          ASSERT_EQ(node.first, at);
          ASSERT_EQ(cover_nodes(node.first, node.second, n).size(), 1u);
          at = node.second;
        }
        ASSERT_EQ(at, last) << n;
        ASSERT_LE(static_cast<int>(nodes.size()), std::max(1, 2 * levels_of(n)))
            << n << " " << first << " " << last;
        // Largest: no two neighbours are the children of one node of the cover's range.
        for (size_t i = 0; i + 1 < nodes.size(); ++i)
          ASSERT_NE(cover_nodes(nodes[i].first, nodes[i + 1].second, n).size(), 1u);
      }
}

TEST(Tree, AnySplitOverRanksGivesTheSameBits) {
  for (int64_t n = 1; n <= 64; ++n) {
    const auto leaves = awkward(n);
    const double expected = tree_sum(leaves);
    for (int dp = 1; dp <= n + 3; ++dp) {
      std::vector<LeafRange> nodes;
      int64_t at = 0;
      for (int rank = 0; rank < dp; ++rank) {
        const auto [first, last] = micro_batches_of_rank(n, dp, rank);
        ASSERT_EQ(first, at);
        const int64_t expected_length = n / dp + (rank < n % dp ? 1 : 0);
        ASSERT_EQ(last - first, expected_length);
        at = last;
        for (const auto& node : cover_nodes(first, last, n)) nodes.push_back(node);
      }
      ASSERT_EQ(at, n);
      ASSERT_EQ(run_plan(leaves, nodes), expected) << n << " leaves on " << dp << " ranks";
    }
    std::vector<LeafRange> single;
    for (int64_t i = 0; i < n; ++i) single.emplace_back(i, i + 1);
    ASSERT_EQ(run_plan(leaves, single), expected);
  }
}

TEST(Tree, HugeCountsDoNotOverflow) {
  EXPECT_THROW(cover_nodes(0, 1, INT64_MAX), Error);
  const int64_t n = (int64_t{1} << 62) - 1;
  EXPECT_EQ(cover_nodes(0, n, n).size(), 1u);
  EXPECT_EQ(cover_nodes(n - 1, n, n).size(), 1u);
  EXPECT_LE(cover_nodes(1, n - 1, n).size(), 124u);
}

TEST(Tree, RefusesWhatIsNotATree) {
  EXPECT_THROW(cover_nodes(-1, 2, 4), Error);
  EXPECT_THROW(cover_nodes(3, 2, 4), Error);
  EXPECT_THROW(cover_nodes(0, 5, 4), Error);
  EXPECT_THROW(plan_tree_sum({}, 4), Error);
  EXPECT_THROW(plan_tree_sum({}, 0), Error);
  EXPECT_THROW(plan_tree_sum({{0, 2}}, 4), Error);                  // ends early
  EXPECT_THROW(plan_tree_sum({{0, 1}, {2, 4}}, 4), Error);          // gap
  EXPECT_THROW(plan_tree_sum({{0, 2}, {1, 4}}, 4), Error);          // overlap
  EXPECT_THROW(plan_tree_sum({{0, 3}, {3, 4}}, 4), Error);          // [0, 3) is no node
  EXPECT_THROW(plan_tree_sum({{0, 1}, {1, 3}, {3, 4}}, 4), Error);  // [1, 3) is no node
  EXPECT_THROW(plan_tree_sum({{0, 0}, {0, 4}}, 4), Error);          // empty node
  EXPECT_THROW(plan_tree_sum({{2, 4}, {0, 2}}, 4), Error);          // wrong order
  EXPECT_THROW(micro_batches_of_rank(4, 0, 0), Error);
  EXPECT_THROW(micro_batches_of_rank(4, 2, 2), Error);
  EXPECT_THROW(micro_batches_of_rank(-1, 2, 0), Error);
}

}  // namespace
}  // namespace athanor::tests::tree_test
