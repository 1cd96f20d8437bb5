// 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed",
// ICML 2021): AdamW in a warm-up, whose variance then stays as it is, so that the step is linear in the momentum and the
// momentum can be sent as signs, with error feedback on both sides.
//
//   OneBitAdam optimizer(options, params, {.group = group}, compression);   // as any Optimizer; gradients of DataParallel
//
//   update t <= warm-up    AdamW; the gradients are summed over the ranks
//   the first after it     v = max(v, kLeastVariance * mean of v over the matrix): signs know no small elements, and
//                          those whose gradient was hardly seen would make steps without measure
//   all after it           m = sum over the ranks of code(b1 m / n + (1 - b1) g_rank), both ways as in block_sum.h with
//                          onebit_code();  master -= lr (m / c1(t)) / (sqrt(v / c2(warm-up)) + eps), decay as in AdamW
//
// step() takes this rank's gradients after the warm-up, and overwrites them. What is_compressed() says no to has a
// momentum that is summed in f32. Nobody knows the gradient's norm then, so nothing is clipped. Elements whose v is
// zero, as all of a tensor's are that had no gradient yet, keep m = 0 and stay. Experts on other ranks than everything
// else (axis ep) are summed over the ranks with the same ones, n of them; what one rank alone has is not coded.
// Errors: the groups'.
// Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/optim/adamw.h"
#include "athanor/parallel/compression/compressed_gradients.h"

namespace athanor {

struct MomentumGroups {
  Group& group;
  Group* experts = nullptr;  // of stacks of experts; null: as all others
  Group* of(const Param& param) const { return experts != nullptr && param.is_stack() ? experts : &group; }
};

class OneBitAdam final : public AdamW {
 public:
  OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
             const MomentumGroups& groups, const CompressionOptions& compression);
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<CompressionState> compression_states() const;

 private:
  struct Slot {
    Param* param;
    Tensor m, v;
  };
  struct Part {  // whose momenta are summed together
    Group* group;
    std::vector<Slot> slots;
    std::unique_ptr<CompressedSum> sum;
  };
  void add_part(Group& group, std::vector<Slot> slots, bool coded, Arena& arena);
  void raise_variance();

  MomentumGroups groups_;
  CompressionOptions compression_;
  std::vector<Part> parts_;
};

}  // namespace athanor
