// 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed",
// ICML 2021): AdamW during the warm-up, then its variance is frozen. The step is then linear in the momentum, so the
// momentum can be sent as signs, with error feedback on both sides.
//
//   OneBitAdam optimizer(options, params, ranks_of, compression);   // as any Optimizer; gradients of DataParallel
//
//   update t <= warm-up    AdamW; the gradients are summed over the ranks
//   first update after it  v = max(v, kLeastVariance * mean of v over the matrix): signs make all elements equally
//                          large, so an element with a tiny v would get a huge step
//   all updates after it   m = sum over the ranks of compressed(b1 m / n + (1 - b1) g_rank), in both exchanges of
//                          block_sum.h, with onebit_code()
//                          master -= lr (m / c1(t)) / (sqrt(v / c2(warm-up)) + eps), weight decay as in AdamW
//
// After the warm-up step() takes this rank's own gradients and overwrites them; the norm of the mean gradient is
// unknown, so nothing is clipped. Parameters for which is_compressed() is false have their momentum summed in f32. A
// matrix whose v is zero, which never had a gradient, keeps m = 0 and does not change. Experts with a group of their
// own (ep) are summed over it, n its size; in a group of one rank nothing is compressed.
//
// ZeRO 1: master, v and the update are partitioned, with the bits of unpartitioned ones. Momenta are replicated, since
// each rank compresses the whole momentum of its own gradient. The momenta of elements that other ranks update are
// extra memory; they are all-gathered when the warm-up ends.
// Errors: the groups'. Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/optim/adamw.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/data/data_parallel.h"

namespace athanor::parallel::compression {

class OneBitAdam final : public AdamW {
 public:
  // Called in allocate().
  using RanksOf = std::function<ParamRanks(const Param&)>;
  OneBitAdam(const OptimizerOptions& options, const std::vector<std::unique_ptr<Param>>& params,
             RanksOf ranks_of, const CompressionOptions& compression);
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;
  std::vector<ExchangeState> exchange_states() const;

 private:
  struct Slot {
    Param* param;
    ParamRanks ranks;
    Tensor m, v;                   // of param->range(); undefined where that is empty
    Tensor before, after;          // momenta of the elements before and after range(); undefined where empty
    std::vector<bool> moves = {};  // by matrix: v is not zero
  };
  struct Part {  // parameters whose momenta are summed together
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
  bool begun_ = false;  // after the warm-up: all momenta are current and Slot::moves is known
};

}  // namespace athanor::parallel::compression
