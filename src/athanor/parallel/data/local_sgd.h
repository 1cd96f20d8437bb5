// Local SGD: replica groups of data-parallel ranks train on their own and, every k steps, an outer optimizer averages
// their weights, as in DiLoCo (Douillard et al., 2023; Nesterov momentum on the mean difference of weights). Inside a
// replica group gradients are summed every step.
//
//   OuterSync outer(model.params(), inner, across, arena, {.every = 50});   // after allocate()
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
// ranks that hold them; sums are in rank order, so copies of a tied table stay equal. Experts with a group of their own
// (ep) are split over `expert_group`.
// Compression (options.code): a replica group's share of the mean, (w - x)/H, is sent compressed in blocks of 256
// elements of a parameter, and the sum again, with error feedback on both sides (compression/block_sum.h). Ranks'
// shares are then cut between blocks, so the result does not depend on the number of ranks.
// Buffers (Param::is_state) are left alone. Collective; errors: the groups'. Thread rule: one thread.
#pragma once

#include <memory>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"
#include "athanor/parallel/compression/block_sum.h"

namespace athanor::parallel::data {

struct OuterOptions {
  int64_t every = 1;  // steps
  double lr = 0.7;
  double momentum = 0.9;
  bool copies = false;  // hybrid sharding: `inner` are ranks that hold the same shard, and split it
  const BlockCode* code = nullptr;  // compression between replica groups; null: f32
  bool error_feedback = true;
  // The replica group's ranks with the same experts (edp); null: experts are treated as all other parameters.
  Group* expert_group = nullptr;
};

class OuterSync {
 public:
  OuterSync(const std::vector<std::unique_ptr<Param>>& params, Group& inner, Group& across, Arena& arena,
            const OuterOptions& options);
  OuterSync(std::vector<Param*> params, Group& inner, Group& across, Arena& arena,
            const OuterOptions& options);
  void begin();  // does nothing the second time
  bool due(int64_t step) const { return step % options_.every == 0; }
  void sync();
  // A decision that all replica groups must share between outer steps: true if `here` is true in all of them.
  // Collective, 8 bytes over the slow link.
  bool is_true_everywhere(bool here);

  // This rank's shard of w and u: the elements `range` of a parameter; for checkpoints. A caller that fills them,
  // instead of begin(), then calls set_begun().
  struct Piece {
    Param* param;
    FlatRange range;
    Tensor weights, momentum;
  };
  std::vector<Piece> pieces() const;
  // Error-feedback residuals that this rank holds: of what it sent, or (of_sum) of the sum that it sent on.
  struct Residual {
    Param* param;
    FlatRange range;
    Tensor values;
    bool of_sum;
  };
  std::vector<Residual> residuals() const;
  void set_begun();
  int replica_group() const { return across_.rank(); }
  int num_replica_groups() const { return across_.size(); }

 private:
  struct Segment {  // elements of a parameter's f32 master, and their offset `at` in a rank's share
    Param* param;
    int64_t first, count, at;
  };
  bool is_coded() const { return options_.code != nullptr && across_.size() > 1; }
  int64_t padded(int64_t count) const;
  std::vector<Segment> segments_of(int rank) const;
  void write_masters(const std::vector<Segment>& segments, const float* row);

  Group &inner_, &across_;
  Arena& arena_;
  OuterOptions options_;
  std::vector<Param*> params_;
  int64_t total_ = 0, row_ = 0;  // elements of all masters, padded, and of a rank's share
  bool shared_out_ = false;      // the ranks of inner_ hold equal masters and split the outer state
  std::vector<Segment> mine_;
  Tensor weights_, momentum_;  // f32 [row]
  std::unique_ptr<BlockSum> coded_;
  bool begun_ = false;
  std::unique_ptr<OuterSync> experts_;  // of experts that have an expert_group
};

}  // namespace athanor::parallel::data
