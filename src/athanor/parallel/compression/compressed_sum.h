// Interface of a compressed all-reduce of matrices: what each compression method does for the matrices of one bucket.
// start() runs during the backward pass, proceed() and finish() after it:
//
//   sum->start(grads);                                  // each [numel] f32; compresses, starts the first exchange
//   for (auto& s : sums) s->proceed(clock);             // waits for it, starts the second one
//   for (auto& s : sums) s->finish(clock);              // the tensors of start() hold the sum
//
// Every rank gets the same bits. Between start() and finish() the tensors belong to the sum. Where a rank needs only a
// range of a tensor (ZeRO 1) the other elements are undefined. On the null device memory is allocated, nothing else
// done. State kept from step to step does not depend on the loss scale of f16: set_unit() gives the scale of the next
// values. forget() clears the state after a step whose sums were not finite.
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/parallel/data/bucket_exchange.h"

namespace athanor::parallel::compression {

struct SumTensor {
  std::string name;  // unique, the same on every rank
  int64_t rows = 0, cols = 0;
  std::vector<FlatRange> needed = {};  // by rank, at multiples of kCodeBlock; empty: every rank needs all
  int64_t numel() const { return rows * cols; }
};

inline std::vector<int64_t> numels_of(const std::vector<SumTensor>& tensors) {
  std::vector<int64_t> numels;
  for (const SumTensor& tensor : tensors) numels.push_back(tensor.numel());
  return numels;
}

// State that a sum keeps from step to step.
struct SumState {
  StateKind kind;
  size_t tensor;
  FlatRange range;
  Tensor values;  // f32
};

class CompressedSum {
 public:
  virtual ~CompressedSum() = default;
  virtual void start(std::vector<Tensor> grads) = 0;
  virtual void proceed(WaitClock& clock) = 0;
  virtual void finish(WaitClock& clock) = 0;
  virtual void set_unit(double /*unit*/) {}
  virtual void forget() {}
  virtual std::vector<SumState> states() const = 0;
};

}  // namespace athanor::parallel::compression
