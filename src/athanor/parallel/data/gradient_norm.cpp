#include "athanor/parallel/data/gradient_norm.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/comm/tree.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::data {
namespace {

int64_t blocks_of(int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

// The nodes that cover a shard, in the tree over the blocks of its tensor.
std::vector<LeafRange> nodes_of(const FlatRange& piece, int64_t numel) {
  if (piece.count() == 0) return {};
  check(piece.first % kNormBlock == 0 && (piece.last % kNormBlock == 0 || piece.last == numel),
        "gradient norm: got the range [{}, {}) of {} elements, expected whole blocks", piece.first,
        piece.last, numel);
  return cover_nodes(piece.first / kNormBlock, blocks_of(piece.last), blocks_of(numel));
}

// The sums of squares that this rank computes. Many small tensors share one call of the kernel.
struct Sums {
  std::vector<Tensor> tensors;
  std::vector<size_t> places;  // index of each tensor's sum in `values`
  std::vector<double> values;

  void add(Tensor tensor, size_t place) {
    tensors.push_back(std::move(tensor));
    places.push_back(place);
  }
  // A tree node inside this rank's shard `piece`.
  void add_node(const NormTensor& tensor, const Tensor& mine, const FlatRange& piece, const LeafRange& node,
                size_t place) {
    const int64_t first = node.first * kNormBlock - piece.first;
    const int64_t last = std::min(node.second * kNormBlock, tensor.numel) - piece.first;
    add(mine.flat(first, last - first), place);
  }
  void run() {
    if (tensors.empty()) return;
    std::vector<double> sums(tensors.size());
    kernels_of(tensors[0]).elementwise.sum_squares(tensors[0].queue(), tensors, sums);
    for (size_t i = 0; i < sums.size(); ++i) values[places[i]] = sums[i];
    tensors.clear();
    places.clear();
  }
};

double add_nodes(const std::vector<LeafRange>& nodes, std::vector<double> values, int64_t numel) {
  if (nodes.empty()) return 0.0;
  for (const TreeAdd& add : plan_tree_sum(nodes, blocks_of(numel)))
    values[static_cast<size_t>(add.into)] += values[static_cast<size_t>(add.from)];
  return values[0];
}

}  // namespace

std::vector<double> sum_squares(const std::vector<NormTensor>& tensors, Group& group) {
  std::vector<std::vector<LeafRange>> nodes(tensors.size());
  size_t num_nodes = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const FlatRange& piece : tensors[t].pieces)
      for (const LeafRange& node : nodes_of(piece, tensors[t].numel)) nodes[t].push_back(node);
    num_nodes += nodes[t].size();
  }
  // Values: first the nodes of all sharded tensors (zero where another rank has the node, until the all-reduce), then
  // one sum for each replicated tensor.
  Sums sums{.tensors = {}, .places = {}, .values = std::vector<double>(num_nodes + tensors.size(), 0.0)};
  size_t next_node = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const NormTensor& tensor = tensors[t];
    const Tensor mine = tensor.mine();
    if (tensor.pieces.empty()) sums.add(mine, num_nodes + t);
    for (size_t rank = 0; rank < tensor.pieces.size(); ++rank)
      for (const LeafRange& node : nodes_of(tensor.pieces[rank], tensor.numel)) {
        if (static_cast<int>(rank) == group.rank())
          sums.add_node(tensor, mine, tensor.pieces[rank], node, next_node);
        ++next_node;
      }
    if (!tensor.stays) sums.run();
  }
  sums.run();
  if (num_nodes > 0)
    group.all_reduce(sums.values.data(), static_cast<int64_t>(num_nodes), Dtype::f64, "norm").wait();
  std::vector<double> of_tensors;
  auto next = sums.values.begin();
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].pieces.empty()) {
      of_tensors.push_back(sums.values[num_nodes + t]);
      continue;
    }
    const auto end = next + static_cast<std::ptrdiff_t>(nodes[t].size());
    of_tensors.push_back(add_nodes(nodes[t], {next, end}, tensors[t].numel));
    next = end;
  }
  return of_tensors;
}

}  // namespace athanor::parallel::data
