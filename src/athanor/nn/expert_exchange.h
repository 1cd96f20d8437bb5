// Dispatch and combine of expert parallelism: dispatch sends each token row to the rank that holds its expert, combine
// sends the results back; both are an all-to-all. This is the interface that a layer of experts uses;
// parallel/expert/expert_parallel.h implements it on a Group.
//
//   const auto plan = exchange.plan(x, routing);                // who sends how many rows to whom
//   Var sent = exchange.start_dispatch(rows, plan);             // rows [R,C], sorted by expert
//   ...                                                         // computation here overlaps with the transfer
//   const Var local = exchange.finish_dispatch(sent, plan);     // [R',C], sorted by expert of this rank
//   sent = exchange.start_combine(compute(local, plan->counts), plan);
//   rows = exchange.finish_combine(sent, plan);                 // [R,C] in the order of `rows`
//
// Each function is an operation on the tape. The gradient of a start is the finish of the opposite transfer, and the
// reverse. The value that a start returns is undefined until its finish. Collective: every rank makes the same calls in
// the same order. Errors: those of the Group. Thread rule: that of the Tape.
#pragma once

#include <memory>
#include <vector>

#include "athanor/ops/moe.h"

namespace athanor::nn {

// How one pass distributes its rows; valid for one dispatch and its combine.
struct DispatchPlan {
  virtual ~DispatchPlan() = default;
  std::vector<int64_t> counts;  // rows of each expert of this rank
};

class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  virtual std::shared_ptr<DispatchPlan> plan(const Tensor& x, const Routing& routing) = 0;
  virtual Var start_dispatch(const Var& rows, const std::shared_ptr<DispatchPlan>& plan) = 0;
  virtual Var finish_dispatch(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) = 0;
  virtual Var start_combine(const Var& results, const std::shared_ptr<DispatchPlan>& plan) = 0;
  virtual Var finish_combine(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) = 0;
};

}  // namespace athanor::nn
