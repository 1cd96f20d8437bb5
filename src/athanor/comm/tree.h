// The fixed binary tree of law 5: gradients, losses and token counts are summed over the micro-batches 0 ... n-1 in one
// order, independent of which rank computes which.
//
// The tree over n leaves: node (level, i) covers the leaves [i 2^level, (i+1) 2^level) that exist. Its value is left +
// right; a node without a right child equals its left child. So a contiguous range of leaves is covered by at most
// max(1, 2 ceil(log2 n)) nodes. A node is named by its leaves: nodes at the right edge with the same leaves have the
// same value.
//
//   n = 5:            [0,5)              ranks with the leaves [0,3) and [3,5) have the nodes
//               [0,4)       [4,5)          [0,2) [2,3)   and   [3,4) [4,5)
//            [0,2) [2,4)      |          and the plan adds [2,3)+[3,4), [0,2)+[2,4), [0,4)+[4,5).
//            0  1  2  3       4
//
// All functions are pure; Error for ranges that are not inside [0, n).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm {

using LeafRange = std::pair<int64_t, int64_t>;  // [first, last)

// The largest nodes of the tree over num_leaves that cover [first, last), from left to right.
std::vector<LeafRange> cover_nodes(int64_t first, int64_t last, int64_t num_leaves);

// Whether two adjacent ranges together are a node; then they may be added at once.
bool are_one_node(const LeafRange& left, const LeafRange& right, int64_t num_leaves);

// One addition: nodes[into] += nodes[from]; `into` is the left child, `from` the right one.
struct TreeAdd {
  int into, from;
};
// The additions that turn the given nodes (left to right, together covering [0, num_leaves)) into the root,
// which ends in nodes[0]. Error if they are not nodes of the tree or leave a gap.
std::vector<TreeAdd> plan_tree_sum(const std::vector<LeafRange>& nodes, int64_t num_leaves);

// The additions that are possible among the given nodes (left to right, disjoint), and the sums that are left
// afterwards: each is in nodes[index]. Error if one is not a node of the tree.
struct TreeCombination {
  struct Left {
    LeafRange range;
    int index;
  };
  std::vector<TreeAdd> adds;
  std::vector<Left> left;
};
TreeCombination combine_nodes(const std::vector<LeafRange>& nodes, int64_t num_leaves);

// The nodes of several ranks, from left to right, and the additions that make the root of them.
struct SharedTree {
  struct Node {
    LeafRange range;
    int owner;
  };
  std::vector<Node> nodes;
  std::vector<TreeAdd> adds;
};
// tables[r]: first and last leaf of each node of rank r. Errors as plan_tree_sum's.
SharedTree share_tree(const std::vector<std::vector<int64_t>>& tables, int64_t num_leaves);

// The even partition of n micro-batches: ranks 0 ... (n mod dp)-1 take ceil(n/dp), the others floor(n/dp), contiguous.
LeafRange micro_batches_of_rank(int64_t num_micro_batches, int dp, int rank);

// Sum of values[0 ... n) in the order of the tree; 0 of nothing.
double tree_sum(const std::vector<double>& values);

}  // namespace athanor::comm
