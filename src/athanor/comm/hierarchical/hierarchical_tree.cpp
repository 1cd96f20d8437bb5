// all_reduce_tree of HierarchicalGroup. Each rank of a host receives a slice of all nodes of the host and adds those
// whose sum is a node of the tree; the nodes that are left are its input of the all_reduce_tree between hosts.
#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/comm/hierarchical/hierarchical.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/tree.h"

namespace athanor::comm::hierarchical {

namespace {

constexpr int64_t kChunk = int64_t{1} << 18;  // floats of each node that are sent at once

struct Part {
  LeafRange range;
  size_t owner, number;  // node `number` of the host's rank `owner`
};

}  // namespace

void HierarchicalGroup::run_all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result,
                                            int64_t count, const std::string& name) {
  const auto n = static_cast<size_t>(inner_->size()), me = static_cast<size_t>(inner_->rank());
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // The nodes of all ranks of the host.
  const auto mine = static_cast<int64_t>(nodes.size());
  std::vector<int64_t> num_nodes(n);
  inside([&](Group& group) { group.all_gather(&mine, num_nodes.data(), 1, Dtype::i64, name).wait(); });
  const int64_t most = *std::max_element(num_nodes.begin(), num_nodes.end());
  std::vector<int64_t> table(static_cast<size_t>(2 * most) + 1),
      tables(n * static_cast<size_t>(2 * most) + 1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    table[2 * i] = nodes[i].first;
    table[2 * i + 1] = nodes[i].last;
  }
  inside([&](Group& group) {
    group.all_gather(table.data(), tables.data(), 2 * most, Dtype::i64, name).wait();
  });
  std::vector<Part> parts;
  for (size_t r = 0; r < n; ++r)
    for (size_t i = 0; i < static_cast<size_t>(num_nodes[r]); ++i) {
      const int64_t* words = &tables[(r * static_cast<size_t>(most) + i) * 2];
      parts.push_back({{words[0], words[1]}, r, i});
    }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.range < b.range; });
  std::vector<LeafRange> ranges;
  ranges.reserve(parts.size());
  for (const auto& part : parts) ranges.push_back(part.range);
  const TreeCombination combination = combine_nodes(ranges, num_leaves);

  std::vector<float> given, got, sum, sums;
  std::vector<int64_t> to(n), from(n);
  for (int64_t at = 0; at == 0 || at < count; at += kChunk) {
    const int64_t length = std::min(kChunk, count - at),
                  each = (length + inner_->size() - 1) / inner_->size();
    const auto slice = [&](size_t r) {
      return std::clamp<int64_t>(length - static_cast<int64_t>(r) * each, 0, each);
    };
    given.clear();
    for (size_t r = 0; r < n; ++r) {
      to[r] = mine * slice(r);
      from[r] = num_nodes[r] * slice(me);
      for (const auto& node : nodes) {
        const float* first = node.data + at + static_cast<int64_t>(r) * each;
        if (slice(r) > 0) given.insert(given.end(), first, first + slice(r));
      }
    }
    given.resize(std::max<size_t>(given.size(), 1));
    std::vector<size_t> offset(n + 1);
    for (size_t r = 0; r < n; ++r) offset[r + 1] = offset[r] + static_cast<size_t>(from[r]);
    got.resize(offset[n] + 1);
    inside([&](Group& group) {
      group.all_to_all_v(given.data(), to, got.data(), from, Dtype::f32, name).wait();
    });
    const auto values = [&](int part) {
      const Part& one = parts[static_cast<size_t>(part)];
      return got.data() + offset[one.owner] + one.number * static_cast<size_t>(slice(me));
    };
    for (const auto& step : combination.adds)
      add(values(step.into), values(step.into), values(step.from), slice(me));
    std::vector<TreeNode> left;
    for (const auto& node : combination.left)
      left.push_back({node.range.first, node.range.second, values(node.index)});
    sum.resize(static_cast<size_t>(each) + 1);
    sums.resize(static_cast<size_t>(each) * n + 1);
    across(
        [&](Group& group) { group.all_reduce_tree(left, num_leaves, sum.data(), slice(me), name).wait(); });
    inside([&](Group& group) { group.all_gather(sum.data(), sums.data(), each, Dtype::f32, name).wait(); });
    if (length > 0) std::copy_n(sums.data(), length, result + at);
  }
}

}  // namespace athanor::comm::hierarchical
