// Dispatch and combine of expert parallelism (all-to-all): sends rows to the ranks that hold their experts, and the
// results back. The interface of a layer of experts; parallel/expert/expert_parallel.h implements it on a Group.
//
//   const auto trip = exchange.plan(x, routing);             // who sends how many rows to whom
//   const Var away = exchange.depart(rows, trip);            // dispatch starts: rows [R,C], sorted by expert
//   ...                                                      // computation here overlaps with the transfer
//   Var results = compute(exchange.arrive(away, trip), trip->counts);   // dispatch ends: [R',C], by local expert
//   rows = exchange.come_home(exchange.depart_home(results, trip), trip);   // combine: [R,C] in the order of `rows`
//
// Each function is an operation on the tape. Its gradient takes the reverse way: the gradient's transfer starts where
// the value's ended. The values that depart() returns are undefined until arrive(). Collective: every rank makes the
// same calls in the same order. Errors: those of the Group. Thread rule: that of the Tape.
#pragma once

#include <memory>
#include <vector>

#include "athanor/ops/moe.h"

namespace athanor::nn {

// The plan of one dispatch and its combine.
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

}  // namespace athanor::nn
