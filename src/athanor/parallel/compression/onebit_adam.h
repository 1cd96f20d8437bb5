// 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed",
// ICML 2021): AdamW in a warm-up, whose variance then stays as it is, so that the step is linear in the momentum and the
// momentum can be sent as signs, with error feedback on both sides.
//
//   OneBitAdam optimizer(options, params, ranks_of, compression);   // as any Optimizer; gradients of DataParallel
//
//   update t <= warm-up    AdamW; the gradients are summed over the ranks
//   the first after it     v = max(v, kLeastVariance * mean of v over the matrix): signs know no small elements, and
//                          those whose gradient was hardly seen would make steps without measure
//   all after it           m = sum over the ranks of code(b1 m / n + (1 - b1) g_rank), both ways as in block_sum.h with
//                          onebit_code();  master -= lr (m / c1(t)) / (sqrt(v / c2(warm-up)) + eps), decay as in AdamW
//
// step() takes this rank's gradients after the warm-up, and overwrites them. What is_compressed() says no to has a
// momentum that is summed in f32. Nobody knows the gradient's norm then, so nothing is clipped. Matrices whose v is zero,
// which had no gradient yet, keep m = 0 and stay. Experts on other ranks than everything else (axis ep) are summed over
// the ranks with the same ones, n of them; what one rank alone has is not coded.
//
// ZeRO 1: master, v and the update are of the rank's share of a parameter, with the bits of a whole one. Momenta are whole,
// since each rank codes that of its own gradient: of what others update the optimizer has them beside the state, current
// from the first coded update on, before which the ranks tell each other.
// Errors: the groups'.
// Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/optim/adamw.h"
#include "athanor/parallel/data_parallel.h"

namespace athanor {

class OneBitAdam final : public AdamW {
 public:
  // Asked for in allocate().
  using RanksOf = std::function<ParamRanks(const Param&)>;
  OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
             RanksOf ranks_of, const CompressionOptions& compression);
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<CompressionState> compression_states() const;

 private:
  struct Slot {
    Param* param;
    ParamRanks ranks;
    Tensor m, v;                   // of param->range(); undefined where that is empty
    Tensor before, after;          // the momenta of what others update; undefined where there is nothing
    std::vector<bool> moves = {};  // by matrix: v is not zero
  };
  struct Part {  // whose momenta are summed together
    Group* group;
    std::vector<Slot*> slots;
    std::unique_ptr<CompressedSum> sum;
  };
  void add_slots();
  void add_part(Group& group, bool coded);
  void begin(bool raise);
  std::vector<double> sum_variance(const Slot& slot) const;
  void raise_variance(Slot& slot, bool all);
  void gather_momentum(const Slot& slot) const;
  std::vector<Tensor> momenta(const Part& part, const std::function<const Tensor&(Param&)>& grad,
                              const OptimizerStep& step) const;
  void keep_momentum(const Slot& slot, const Tensor& sum) const;

  RanksOf ranks_of_;
  CompressionOptions compression_;
  Arena* arena_ = nullptr;
  std::vector<Slot> slots_;
  Tensor others_;  // before and after of all slots
  std::vector<Part> parts_;
  bool begun_ = false;  // all momenta are current, and what moves is known
};

}  // namespace athanor
