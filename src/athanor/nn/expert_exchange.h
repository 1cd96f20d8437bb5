// How rows reach experts that lie on other ranks, and come back: what a layer of experts asks of a layout. The
// implementation over a Group is parallel/expert_parallel.h.
//
//   const auto trip = exchange.plan(x, routing);            // who sends how many rows to whom
//   const Var away = exchange.depart(rows, trip);            // [R,C] sorted by expert: on their way
//   ...                                                       // what is computed here overlaps with the transfer
//   Var results = compute(exchange.arrive(away, trip), trip->counts);   // [R',C], sorted by the experts of this rank
//   rows = exchange.come_home(exchange.depart_home(results, trip), trip);   // [R,C] in the order they left
//
// Each is an operation on the tape; the gradients travel the same ways back, departing where the values arrived. The values
// of a depart are not there before the arrive. Every rank makes the same trips in the same order.
// Thread rule: that of the Tape.
#pragma once

#include <memory>
#include <vector>

#include "athanor/ops/moe.h"

namespace athanor {

struct ExpertTrip {
  virtual ~ExpertTrip() = default;
  std::vector<int64_t> counts;  // rows of each expert of this rank
};

class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  virtual std::shared_ptr<ExpertTrip> plan(const Tensor& x, const Routing& routing) = 0;
  virtual Var depart(const Var& rows, const std::shared_ptr<ExpertTrip>& trip) = 0;
  virtual Var arrive(const Var& away, const std::shared_ptr<ExpertTrip>& trip) = 0;
  virtual Var depart_home(const Var& results, const std::shared_ptr<ExpertTrip>& trip) = 0;
  virtual Var come_home(const Var& away, const std::shared_ptr<ExpertTrip>& trip) = 0;
};

}  // namespace athanor
