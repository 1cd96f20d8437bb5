// Uncompressed all-reduce behind the interface of compressed_sum.h, for gradients that are not compressed: vectors,
// small matrices, matrices that tensor parallelism sums again. Packs them into one f32 all_reduce: 2 (n-1)/n 4 bytes an
// element.
#pragma once

#include "athanor/parallel/compression/compressed_sum.h"

namespace athanor::parallel::compression {

class ExactSum final : public CompressedSum {
 public:
  ExactSum(std::string name, Group& group, Arena& arena)
      : name_(std::move(name)), group_(group), arena_(arena) {}
  void start(std::vector<Tensor> grads) override;
  void proceed(WaitClock& clock) override;
  void finish(WaitClock&) override {}
  std::vector<SumState> states() const override { return {}; }

 private:
  std::string name_;
  Group& group_;
  Arena& arena_;
  std::vector<Tensor> grads_;
  Tensor packed_;
  Work work_;
};

}  // namespace athanor::parallel::compression
