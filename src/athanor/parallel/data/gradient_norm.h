// Sums of squares of tensors that are sharded over ranks, with the bits of the unsharded tensor (law 5). The norm
// blocks of a tensor (kernels/elementwise.h) are added in the fixed tree of comm/tree.h: each rank sums the tree nodes
// that lie in its shard, one all-reduce exchanges the nodes, and every rank adds the rest.
//
//   std::vector<double> sums = sum_squares({{numel, piece_of_rank, gradient}, ...}, group);
//
// Shards begin at multiples of kNormBlock. Every rank gets the same bits. Collective; errors are the group's.
#pragma once

#include <functional>
#include <vector>

#include "athanor/autograd/shard.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::data {

struct NormTensor {
  int64_t numel = 0;
  std::vector<FlatRange> pieces;  // each rank's shard; empty: the tensor is replicated
  std::function<Tensor()> mine;   // f32, this rank's shard; called once
  bool stays = true;              // false: mine() of the next tensor invalidates this one (offloaded)
};

std::vector<double> sum_squares(const std::vector<NormTensor>& tensors, Group& group);

}  // namespace athanor::parallel::data
