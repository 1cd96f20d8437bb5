// Top-k (Lin et al., "Deep gradient compression", ICLR 2018): of every matrix each rank sends its ceil(ratio * numel)
// elements of largest magnitude, those of lower index first where magnitudes are equal.
//
//   start    p = x + residue;  k (index u32, value f32) of p to all (all_gather);  residue = p without them
//   finish   x = the sum of the sent values in rank order, 0 where nobody sent any
//
// A rank sends (n-1) 8 K bytes, K over the matrices; what is sent grows with the number of ranks, and from
// ratio = 1/n on an exact sum is cheaper. Without error feedback most of a gradient is lost for good.
#pragma once

#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/error_feedback.h"
#include "athanor/parallel/compression/topk_code.h"

namespace athanor {

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
  std::vector<int64_t> counts_, firsts_;  // of each tensor: k, and where its elements begin
  int64_t total_ = 0;                     // K
  std::vector<Tensor> grads_;
  Tensor sent_, received_;  // u32 [2, K] and [n, 2, K]: indices, then the bits of the values
  Work work_;
};

}  // namespace athanor
