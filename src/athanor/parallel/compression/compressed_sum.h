// The sum over the ranks of some matrices, as fewer bytes: what each way of compression does for the matrices of one
// bucket. Started while the backward pass runs, carried on and ended when it is over:
//
//   sum->start(grads);                                  // each [numel] f32; encodes, starts the first exchange
//   for (auto& s : sums) s->proceed(clock);             // waits for it, starts the second one
//   for (auto& s : sums) s->finish(clock);              // the tensors of start() hold the sum
//
// Every rank gets the same bits. Between start() and finish() the tensors belong to the sum. Where a rank needs only a
// range of each (ZeRO 1) the rest may be left as it is. On the null device memory is taken and nothing else done.
// What is kept from step to step does not depend on the loss scale of f16, which values come with: set_unit(). forget():
// a step whose sums were not finite is as if nothing had been kept.
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/parallel/gradient_sum.h"

namespace athanor {

struct SumTensor {
  std::string name;  // unique, the same on every rank
  int64_t rows = 0, cols = 0;
  std::vector<FlatRange> needed = {};  // by rank, cut at multiples of kCodeBlock; empty: every rank needs all
  int64_t numel() const { return rows * cols; }
};

inline std::vector<int64_t> numels_of(const std::vector<SumTensor>& tensors) {
  std::vector<int64_t> numels;
  for (const SumTensor& tensor : tensors) numels.push_back(tensor.numel());
  return numels;
}

// What a sum keeps from step to step.
struct SumState {
  enum class Kind {
    residue,      // of what this rank sent: every rank has another one
    sum_residue,  // of what it sent on of the sum: elements `range` of the tensor, which only this rank has
    factor,       // a matrix [rows, cols] that all ranks have alike
  };
  Kind kind;
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

}  // namespace athanor
