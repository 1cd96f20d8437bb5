// Sums of squares of tensors that lie in pieces on several ranks, with the bits of the whole (law 5): a tensor's norm
// blocks (kernels/elementwise.h) are added in the fixed tree of comm/tree.h. Each rank sums the nodes of that tree
// that its piece consists of, the nodes are exchanged in one all-reduce, and every rank adds the rest.
//
//   std::vector<double> sums = sum_squares({{numel, piece_of_rank, gradient}, ...}, group);
//
// Pieces are cut at multiples of kNormBlock. Every rank gets the same bits. Collective; errors are the group's.
#pragma once

#include <functional>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"

namespace athanor {

struct NormTensor {
  int64_t numel = 0;
  std::vector<FlatRange> pieces;  // by rank; empty: this rank has it whole, as every other
  std::function<Tensor()> mine;   // f32, this rank's piece; asked for once
  bool stays = true;              // it is in memory; else it goes before the next is asked for
};

std::vector<double> sum_squares(const std::vector<NormTensor>& tensors, Group& group);

}  // namespace athanor
