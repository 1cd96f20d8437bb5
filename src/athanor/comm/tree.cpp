#include "athanor/comm/tree.h"

#include <algorithm>
#include <bit>

#include "athanor/base/check.h"

namespace athanor::comm {

namespace {

constexpr int64_t kMaxLeaves = int64_t{1} << 62;  // twice a node's length must not overflow

// Whether `left` and `right` are the two children of one node. A left child that has a sibling is never truncated by
// the right edge of the tree.
bool are_siblings(const LeafRange& left, const LeafRange& right, int64_t num_leaves) {
  const int64_t length = left.second - left.first;
  return right.first == left.second && std::has_single_bit(static_cast<uint64_t>(length)) &&
         left.first % (2 * length) == 0 && right.second == std::min(left.first + 2 * length, num_leaves);
}

bool is_node(const LeafRange& range, int64_t num_leaves) {
  return cover_nodes(range.first, range.second, num_leaves).size() == 1;
}

}  // namespace

std::vector<LeafRange> cover_nodes(int64_t first, int64_t last, int64_t num_leaves) {
  check(num_leaves <= kMaxLeaves, "tree: {} leaves, expected at most {}", num_leaves, kMaxLeaves);
  check(0 <= first && first <= last && last <= num_leaves, "tree: leaves [{}, {}) must lie inside [0, {})",
        first, last, num_leaves);
  std::vector<LeafRange> nodes;
  for (int64_t begin = first; begin < last;) {
    const auto end_of = [&](int64_t length) {
      return length > num_leaves - begin ? num_leaves : begin + length;
    };
    int64_t length = 1;
    while (length < num_leaves && begin % (2 * length) == 0 && end_of(2 * length) <= last) length *= 2;
    nodes.emplace_back(begin, end_of(length));
    begin = nodes.back().second;
  }
  return nodes;
}

bool are_one_node(const LeafRange& left, const LeafRange& right, int64_t num_leaves) {
  return is_node({left.first, right.second}, num_leaves);
}

TreeCombination combine_nodes(const std::vector<LeafRange>& nodes, int64_t num_leaves) {
  TreeCombination result;
  auto& open = result.left;  // sums that wait for their right sibling
  int64_t end = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const LeafRange& node = nodes[i];
    check(end <= node.first && node.first < node.second && is_node(node, num_leaves),
          "tree: [{}, {}) is not a node of the tree over {} leaves behind leaf {}", node.first, node.second,
          num_leaves, end);
    end = node.second;
    open.push_back({node, static_cast<int>(i)});
    while (open.size() >= 2 && are_siblings(open[open.size() - 2].range, open.back().range, num_leaves)) {
      const auto right = open.back();
      open.pop_back();
      result.adds.push_back({open.back().index, right.index});
      open.back().range.second = right.range.second;
    }
  }
  return result;
}

std::vector<TreeAdd> plan_tree_sum(const std::vector<LeafRange>& nodes, int64_t num_leaves) {
  check(num_leaves >= 1, "tree: a sum over {} leaves, expected at least 1", num_leaves);
  int64_t covered = 0;
  for (const LeafRange& node : nodes) {
    check(node.first == covered && node.first < node.second,
          "tree: node [{}, {}) got, expected one that starts at leaf {}", node.first, node.second, covered);
    covered = node.second;
  }
  TreeCombination combination = combine_nodes(nodes, num_leaves);
  check(covered == num_leaves, "tree: the nodes end at leaf {}, expected {}", covered, num_leaves);
  check(combination.left.size() == 1, "tree: {} nodes are left over of the sum over {} leaves",
        combination.left.size(), num_leaves);
  return std::move(combination.adds);
}

SharedTree share_tree(const std::vector<std::vector<int64_t>>& tables, int64_t num_leaves) {
  SharedTree tree;
  for (size_t r = 0; r < tables.size(); ++r)
    for (size_t i = 0; i + 1 < tables[r].size(); i += 2)
      tree.nodes.push_back({{tables[r][i], tables[r][i + 1]}, static_cast<int>(r)});
  std::stable_sort(tree.nodes.begin(), tree.nodes.end(),
                   [](const auto& a, const auto& b) { return a.range < b.range; });
  std::vector<LeafRange> ranges;
  ranges.reserve(tree.nodes.size());
  for (const auto& node : tree.nodes) ranges.push_back(node.range);
  tree.adds = plan_tree_sum(ranges, num_leaves);
  return tree;
}

LeafRange micro_batches_of_rank(int64_t num_micro_batches, int dp, int rank) {
  check(num_micro_batches >= 0 && dp >= 1 && 0 <= rank && rank < dp,
        "micro-batches: rank {} of {} with {} micro-batches", rank, dp, num_micro_batches);
  const int64_t each = num_micro_batches / dp, extra = num_micro_batches % dp;
  const int64_t first = rank * each + std::min<int64_t>(rank, extra);
  return {first, first + each + (rank < extra ? 1 : 0)};
}

double tree_sum(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  std::vector<double> level = values;
  while (level.size() > 1) {
    const size_t pairs = level.size() / 2;
    for (size_t i = 0; i < pairs; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (level.size() % 2 != 0) level[pairs] = level.back();
    level.resize((level.size() + 1) / 2);
  }
  return level[0];
}

}  // namespace athanor::comm
