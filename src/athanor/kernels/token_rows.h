// Tokens on their way to the experts and back: rows sorted by expert.
//
//   assign            places [N,K], tokens [R], counts: the row of choice (n, k), -1 where it is dropped; the token
//                     of each row; the rows of each expert. Rows are sorted by expert, then by token. Expert e takes
//                     its first capacity[e] tokens (empty: all); the tokens of the last of its rows come last.
//   gather            y[r] = x[tokens[r]]                                     y [R,C], x [N,C] T
//   gather_backward   dx[n] = sum over k of dy[places[n,k]]                   f32 sums, k ascending
//   combine           y[n] = sum over k of weights[n,k] . x[places[n,k]]      likewise; dropped ones add nothing
//   combine_backward  dx[places[n,k]] = weights[n,k] . dy[n],   dweights[n,k] = dy[n] . x[places[n,k]] (0: dropped)
//
// experts, places [N,K], tokens [R] i32;  weights, dweights [N,K] f32;  x, y, dx, dy of [N,C] and [R,C] T.
// A token chooses an expert at most once (Error). On the null device the first experts get most_rows(), the assignment
// that has the most rows, and whose products need the most workspace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace athanor {

class Queue;
class Tensor;

// The most rows that N tokens with K choices each can have with these experts, dealt out to the first of them: every
// token goes to an expert once at most, and an expert takes capacity[e] at most (empty: all).
std::vector<int64_t> most_rows(int64_t tokens, int64_t chosen, int64_t num_experts,
                               std::span<const int64_t> capacity);

// What assign() returns, [E] each.
struct ExpertCounts {
  std::vector<int64_t> chosen;  // by the router; on the null device as `kept`
  std::vector<int64_t> kept;    // within the capacity: rows
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

}  // namespace athanor
