#include "athanor/parallel/gradient_norm.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/comm/tree.h"
#include "athanor/kernels/table.h"

namespace athanor {
namespace {

int64_t blocks_of(int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

// The nodes of the tree over a tensor's blocks that a piece consists of.
std::vector<LeafRange> nodes_of(const FlatRange& piece, int64_t numel) {
  if (piece.count() == 0) return {};
  check(piece.first % kNormBlock == 0 && (piece.last % kNormBlock == 0 || piece.last == numel),
        "norm: got the piece [{}, {}) of {} elements, expected whole blocks", piece.first, piece.last, numel);
  return cover_nodes(piece.first / kNormBlock, blocks_of(piece.last), blocks_of(numel));
}

double sum_node(const NormTensor& tensor, const FlatRange& piece, const LeafRange& node) {
  const int64_t first = node.first * kNormBlock, last = std::min(node.second * kNormBlock, tensor.numel);
  return kernels(tensor.mine)
      .elementwise.sum_squares(tensor.mine.queue(), tensor.mine.flat(first - piece.first, last - first));
}

double add_nodes(const std::vector<LeafRange>& nodes, std::vector<double> values, int64_t numel) {
  if (nodes.empty()) return 0.0;
  for (const TreeAdd& add : plan_tree_sum(nodes, blocks_of(numel)))
    values[static_cast<size_t>(add.into)] += values[static_cast<size_t>(add.from)];
  return values[0];
}

}  // namespace

std::vector<double> sum_squares(const std::vector<NormTensor>& tensors, Group& group) {
  std::vector<std::vector<LeafRange>> nodes(tensors.size());
  std::vector<double> values;  // of all nodes of all tensors; those of other ranks are zero here
  for (size_t t = 0; t < tensors.size(); ++t) {
    const NormTensor& tensor = tensors[t];
    for (size_t rank = 0; rank < tensor.pieces.size(); ++rank)
      for (const LeafRange& node : nodes_of(tensor.pieces[rank], tensor.numel)) {
        const bool mine = static_cast<int>(rank) == group.rank();
        values.push_back(mine ? sum_node(tensor, tensor.pieces[rank], node) : 0.0);
        nodes[t].push_back(node);
      }
  }
  if (!values.empty())
    group.all_reduce(values.data(), static_cast<int64_t>(values.size()), Dtype::f64, "norm").wait();
  std::vector<double> sums;
  auto next = values.begin();
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].pieces.empty()) {
      sums.push_back(
          kernels(tensors[t].mine).elementwise.sum_squares(tensors[t].mine.queue(), tensors[t].mine));
      continue;
    }
    const auto end = next + static_cast<std::ptrdiff_t>(nodes[t].size());
    sums.push_back(add_nodes(nodes[t], {next, end}, tensors[t].numel));
    next = end;
  }
  return sums;
}

}  // namespace athanor
