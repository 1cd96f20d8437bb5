// Local SGD: replica groups of data-parallel ranks train on their own and, every k steps, an outer optimizer averages
// their weights, as in DiLoCo (Douillard et al., 2023; Nesterov momentum on the mean difference of weights). Inside a
// replica group gradients are summed every step.
//
//   OuterSync outer(model.params(), {.inner = &inner, .across = &across}, arena, {.every = 50});   // after allocate()
//   outer.begin();                                // outer weights w = the current ones, momentum u = 0
//   ... a step of the replica group: its gradients, its optimizer ...
//   if (outer.due(step)) outer.sync();            // the outer step, before the parameters are published
//
//   outer step:  d = mean over the replica groups of (w - x);  u = momentum u + d;  w -= lr (d + momentum u);  x = w
//   x: the weights of a replica group. lr = 1 without momentum is the mean of the weights.
//
//   inner    the ranks of this replica group
//   across   the ranks with this one's number in all replica groups; the outer step is an all-reduce over them
//
// Memory: w and u are f32, 8 bytes a parameter, partitioned over `inner`. Parameters that ZeRO partitions keep ZeRO's
// shards. All others are split evenly over `inner` and all-gathered there afterwards. So a replica group of any size
// sends 2 (H-1)/H 4 bytes a parameter over the slow link in each outer step, H the number of replica groups.
// Other axes: ranks of cp are ordinary ranks of the replica group. Stages of pp and parts of tp are synchronised by the
// ranks that hold them; sums are in rank order, so copies of a tied table stay equal. Experts with ranks of their own
// (ep) are split over those (expert_inner).
// Compression (options.code): a replica group's share of the mean, (w - x)/H, is sent compressed in blocks of 256
// elements of a parameter, and the sum again, with error feedback on both sides (compression/block_sum.h). Ranks'
// shares are then cut between blocks, so the result does not depend on the number of ranks.
// Buffers (Param::is_state) are left alone. Collective; errors: the groups'. Thread rule: one thread.
#pragma once

#include <memory>
#include <vector>

#include "athanor/parallel/data/outer_group.h"
#include "athanor/parallel/data/weight_sync.h"

namespace athanor::parallel::data {

struct OuterRanks {
  Group* inner;   // as above
  Group* across;  // as above
  Group* expert_inner =
      nullptr;  // the replica group's ranks with the same experts; null: experts are as all others
};

class OuterSync final : public WeightSync {
 public:
  OuterSync(const std::vector<std::unique_ptr<Param>>& params, const OuterRanks& ranks, Arena& arena,
            const OuterOptions& options);
  void begin() override;
  bool due(int64_t step) const override { return step % every_ == 0; }
  void sync() override;
  bool is_true_everywhere(bool here) override;  // 8 bytes over the slow link

  // For checkpoints. A caller that fills the pieces, instead of begin(), then calls set_begun().
  std::vector<OuterPiece> pieces() const;
  std::vector<OuterResidual> residuals() const;
  void set_begun() { begun_ = true; }
  int replica_group() const { return across_.rank(); }
  int num_replica_groups() const { return across_.size(); }

 private:
  Group& across_;
  int64_t every_;
  std::vector<OuterGroup> groups_;  // dense parameters, then experts that have their own ranks
  bool begun_ = false;
};

}  // namespace athanor::parallel::data
