// Dispatch and combine of a mixture-of-experts layer: tokens gathered into rows sorted by expert, and back.
//
//   assign            returns the rows of each expert; tokens [R]: the token of each row; places [N,K]: the row of
//                     choice (n, k), -1 if it is dropped. Rows are sorted by expert, then by token. Expert e keeps the
//                     first capacity[e] tokens that chose it (capacity empty: all).
//   gather            y[r] = x[tokens[r]]                                     y [R,C], x [N,C] T
//   gather_backward   dx[n] = sum over k of dy[places[n,k]]                   f32 sums, k ascending; dropped: 0
//   combine           y[n] = sum over k of weights[n,k] . x[places[n,k]]      f32 sums, k ascending; dropped: 0
//   combine_backward  dx[places[n,k]] = weights[n,k] . dy[n],   dweights[n,k] = dy[n] . x[places[n,k]] (dropped: 0)
//
// experts, places [N,K], tokens [R] i32;  weights, dweights [N,K] f32;  x, y, dx, dy of [N,C] and [R,C] T.
// Error if a token chooses an expert twice. On the null device assign() returns most_rows(): the assignment with the
// most rows, whose products need the most workspace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "athanor/tensor/forward.h"

namespace athanor::kernels {

// The rows of each expert when `tokens` tokens with `chosen` choices each fill as many rows as they can, the first
// experts first. A token goes to an expert at most once; expert e takes at most capacity[e] tokens (empty: any number).
std::vector<int64_t> most_rows(int64_t tokens, int64_t chosen, int64_t num_experts,
                               std::span<const int64_t> capacity);

// What assign() returns, [E] each.
struct ExpertCounts {
  std::vector<int64_t> chosen;  // choices by the router; on the null device the same as `kept`
  std::vector<int64_t> kept;    // choices within the capacity, that is, rows
};

struct TokenRowsKernels {
  // `tokens` has room for N K rows; the first sum(kept) are written.
  ExpertCounts (*assign)(Queue&, Tensor& places, Tensor& tokens, const Tensor& experts, int64_t num_experts,
                         std::span<const int64_t> capacity);
  void (*gather)(Queue&, Tensor& y, const Tensor& x, const Tensor& tokens);
  void (*gather_backward)(Queue&, Tensor& dx, const Tensor& dy, const Tensor& places);
  void (*combine)(Queue&, Tensor& y, const Tensor& x, const Tensor& weights, const Tensor& places);
  void (*combine_backward)(Queue&, Tensor& dx, Tensor& dweights, const Tensor& dy, const Tensor& x,
                           const Tensor& weights, const Tensor& places);
};

}  // namespace athanor::kernels
