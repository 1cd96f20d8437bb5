// 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed",
// ICML 2021): AdamW in a warm-up, whose variance then stays as it is, so that the step is linear in the momentum and the
// momentum can be sent as signs, with error feedback on both sides.
//
//   OneBitAdam optimizer(options, params, group, compression);     // as any Optimizer; gradients of DataParallel
//
//   update t <= warm-up    AdamW; the gradients are summed over the ranks
//   the first after it     v = max(v, kLeastVariance * mean of v over the tensor): signs know no small elements, and
//                          those whose gradient was hardly seen would make steps without measure
//   all after it           m = sum over the ranks of code(b1 m / n + (1 - b1) g_rank), both ways as in block_sum.h with
//                          onebit_code();  master -= lr (m / c1(t)) / (sqrt(v / c2(warm-up)) + eps), decay as in AdamW
//
// step() takes this rank's gradients after the warm-up, and overwrites them. What is_compressed() says no to has a
// momentum that is summed in f32. Nobody knows the gradient's norm then, so nothing is clipped. Elements whose v is
// zero, as all of a tensor's are that had no gradient yet, keep m = 0 and stay. Errors: the group's.
// Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/optim/adamw.h"
#include "athanor/parallel/compression/compressed_gradients.h"

namespace athanor {

class OneBitAdam final : public Optimizer {
 public:
  OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params, Group& group,
             const CompressionOptions& compression);
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<State> states() override { return adam_.states(); }
  std::vector<CompressionState> compression_states() const;

 private:
  struct Slot {
    Param* param;
    Tensor m, v;
  };
  void raise_variance();

  OptimizerOptions options_;
  std::vector<Param*> params_;
  Group& group_;
  CompressionOptions compression_;
  AdamW adam_;
  std::vector<Slot> coded_, exact_;
  std::unique_ptr<CompressedSum> coded_sum_, exact_sum_;
};

}  // namespace athanor
