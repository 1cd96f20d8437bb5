// Another way to sum buckets over ranks than collectives on their f32 values. Gradient compression is one
// (compression/compressed_gradients.h).
//
//   exchange.begin_step(update, loss_scale);
//   if (exchange.active()) exchange.start(bucket, grads);     // during the backward pass
//   exchange.finish(clock);                                   // the tensors of start() hold the sums
//
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/parallel/data/buckets.h"
#include "athanor/parallel/data/wait_clock.h"

namespace athanor::parallel::data {

enum class StateKind {
  residual,      // error-feedback residual of what this rank sent; every rank has its own
  sum_residual,  // error-feedback residual of the sum that it sent on: elements `range`, on this rank only
  factor,        // PowerSGD factor, a matrix [rows, cols] replicated on all ranks
};

// State that checkpoints hold beside weights and optimizer state. The name of its logical tensor in a checkpoint is
// prefix(rank) + "." + the parameter's name:
//
//   error_feedback.RANK.USE.PARAM  residual, of the parameter's shape: one of each rank that the gradient is summed over
//   server_error.USE.PARAM         residual of the sum, of the parameter's shape, partitioned over the ranks
//   factor.USE.PARAM               PowerSGD factor, replicated: [r, C], of a stack [E, r, C], of P tensor-parallel parts
//                                  [P, r, columns of a part]
struct ExchangeState {
  StateKind kind;
  const Weight* weight;
  FlatRange range;  // elements of the parameter (a factor: those of its matrix)
  Tensor values;
  int rank, ranks;  // this rank, and the number of ranks that the gradient is summed over
  std::string prefix(int of_rank) const;
};

class BucketExchange {
 public:
  virtual ~BucketExchange() = default;
  // `loss_scale`: the factor in the gradients of this step (f16).
  virtual void begin_step(int64_t update, double loss_scale = 1.0) = 0;
  virtual bool active() const = 0;  // false: in this step buckets are summed as they are
  virtual bool sums() const = 0;    // false: the optimizer exchanges, and gradients stay each rank's own
  virtual void forget() = 0;        // clears its state: the step's gradients were not finite
  // The bucket [rows * count]; with hybrid sharding this rank's row of it.
  virtual void start(size_t bucket, const Tensor& grads) = 0;
  virtual void finish(size_t bucket, WaitClock& clock) = 0;  // this started bucket, before the others
  virtual void finish(WaitClock& clock) = 0;                 // all started buckets
  virtual std::vector<ExchangeState> states() const = 0;
};

struct ExchangeMaker {
  // `row`: with hybrid sharding the row of each bucket that this rank exchanges. Empty: buckets are summed as they are.
  std::function<std::unique_ptr<BucketExchange>(const Buckets& buckets, Group& group, Arena& arena,
                                                std::optional<int> row)>
      make = {};
  bool needs_whole = false;  // whole gradients on every rank: ZeRO 0 or 1, without hybrid sharding
};

}  // namespace athanor::parallel::data
