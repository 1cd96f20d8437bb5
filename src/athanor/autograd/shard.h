// Tensor and expert parallelism, and ZeRO, as a parameter sees them: which part of it this rank has.
//
//   param.shard({.dim = 0, .axis = "tp", .rank = 1, .size = 4});   // the second quarter of its rows
//   const FlatRange range{100, 200};                               // 100 elements of that quarter
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::autograd {

// How a parameter is partitioned along one mesh axis, tp or ep (DTensor's placement); read by initialization,
// checkpoints, operations and optimizers. The rank holds part `rank` of `size` equal parts along `dim`; parts along
// dim 0 may be padded at the end of the tensor. `copies` ranks of the axis hold the same part (replicas).
struct Shard {
  int dim = 0;
  std::string axis = {};  // "tp"
  int rank = 0, size = 1;
  int copy = 0, copies = 1;
  bool partial = false;  // gradients of the replicas are partial: they are summed once per step
  friend bool operator==(const Shard&, const Shard&) = default;
};

// Elements [first, last) of a flattened tensor.
struct FlatRange {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first; }
};

}  // namespace athanor::autograd
