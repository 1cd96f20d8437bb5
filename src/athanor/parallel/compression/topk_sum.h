// Top-k sparsification (Lin et al., "Deep gradient compression", ICLR 2018): of every matrix each rank sends its
// ceil(ratio * numel) elements of largest magnitude; of equal ones those of lower index.
//
//   start    p = x + residual;  k (index u32, value f32) of p to all (all_gather);  residual = p without the k elements
//   finish   x = the sum of the sent values in rank order, 0 where no rank sent one
//
// Traffic: a rank sends (n-1) 8 K bytes, K the sum of k over the matrices. It grows with the number of ranks; from
// ratio = 1/n on an exact sum is cheaper. Without error feedback most of a gradient is lost.
#pragma once

#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/error_feedback.h"
#include "athanor/parallel/compression/topk_code.h"

namespace athanor::parallel::compression {

class TopkSum final : public CompressedSum {
 public:
  TopkSum(std::string name, std::vector<SumTensor> tensors, double ratio, Group& group, Arena& arena,
          bool error_feedback);
  void start(std::vector<Tensor> grads) override;
  void proceed(WaitClock&) override {}
  void finish(WaitClock& clock) override;
  void set_unit(double unit) override { feedback_.set_unit(unit); }
  void forget() override { feedback_.clear(); }
  std::vector<SumState> states() const override;

 private:
  void select(size_t tensor, Tensor& magnitudes);

  std::string name_;
  std::vector<SumTensor> tensors_;
  Group& group_;
  Arena& arena_;
  ErrorFeedback feedback_;
  std::vector<int64_t> counts_, firsts_;  // by tensor: k, and its offset in a row of sent_ [2, K]
  int64_t total_ = 0;                     // K
  std::vector<Tensor> grads_;
  Tensor sent_, received_;  // u32 [2, K] and [n, 2, K]: indices, then the bits of the values
  Work work_;
};

}  // namespace athanor::parallel::compression
