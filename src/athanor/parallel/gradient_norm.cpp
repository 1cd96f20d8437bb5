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

Tensor tensor_of_node(const NormTensor& tensor, const FlatRange& piece, const LeafRange& node) {
  const int64_t first = node.first * kNormBlock, last = std::min(node.second * kNormBlock, tensor.numel);
  return tensor.mine.flat(first - piece.first, last - first);
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
  std::vector<Tensor> mine;   // what this rank sums: its nodes and whole tensors
  std::vector<size_t> place;  // of its nodes among all nodes of all tensors
  size_t num_nodes = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const NormTensor& tensor = tensors[t];
    for (size_t rank = 0; rank < tensor.pieces.size(); ++rank)
      for (const LeafRange& node : nodes_of(tensor.pieces[rank], tensor.numel)) {
        if (static_cast<int>(rank) == group.rank()) {
          mine.push_back(tensor_of_node(tensor, tensor.pieces[rank], node));
          place.push_back(num_nodes);
        }
        nodes[t].push_back(node);
        ++num_nodes;
      }
  }
  for (const NormTensor& tensor : tensors)
    if (tensor.pieces.empty()) mine.push_back(tensor.mine);

  std::vector<double> of_mine(mine.size());
  if (!mine.empty()) kernels(mine[0]).elementwise.sum_squares(mine[0].queue(), mine, of_mine);
  std::vector<double> of_nodes(num_nodes);  // those of other ranks are zero until they are added
  for (size_t i = 0; i < place.size(); ++i) of_nodes[place[i]] = of_mine[i];
  if (num_nodes > 0)
    group.all_reduce(of_nodes.data(), static_cast<int64_t>(num_nodes), Dtype::f64, "norm").wait();

  std::vector<double> sums;
  auto next = of_nodes.begin();
  auto whole = of_mine.begin() + static_cast<std::ptrdiff_t>(place.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].pieces.empty()) {
      sums.push_back(*whole++);
      continue;
    }
    const auto end = next + static_cast<std::ptrdiff_t>(nodes[t].size());
    sums.push_back(add_nodes(nodes[t], {next, end}, tensors[t].numel));
    next = end;
  }
  return sums;
}

}  // namespace athanor
