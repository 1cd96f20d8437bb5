// Two-speed synchronisation: the data-parallel ranks are islands, inside which gradients are summed every step, and
// every k steps the islands' weights are brought together by an outer optimizer, as in DiLoCo (Douillard et al., 2023;
// local SGD with Nesterov momentum on the difference of weights).
//
//   OuterSync outer(model.params(), inner, across, arena, {.every = 50});   // after allocate()
//   outer.begin();                                // the outer weights w are those of now, the momentum u is zero
//   ... a step of the island: its gradients, its optimizer ...
//   if (outer.due(step)) outer.sync();            // before the values are published
//
//   sync:  d = mean over the islands of (w - x_island);  u = momentum u + d;  w -= lr (d + momentum u);  x_island = w
//
// lr = 1 without momentum is the mean of the weights. One process with H trainings one after the other is the
// definition. `inner`: the ranks of this island; `across`: the ranks with this one's number in all islands.
// Parameters that ZeRO keeps in ranges are synchronised in those ranges; of others each rank of an island takes a
// share, and they tell each other (of hybrid sharding `inner` are those with the same ranges, which share them so): so an island sends 2 (H-1)/H 4 bytes a parameter over the slow link each time,
// however many ranks it has, once in k steps. w and u are f32, 8 bytes a parameter, shared out in the island.
// With the other axes: ranks of cp are ranks of the island like others; each stage of a pipeline and each part of tp is
// synchronised by the ranks that have it (an all-reduce adds in rank order, so the copies of a tied table stay alike);
// experts on other ranks than everything else (axis ep) are shared out over `expert_group`, the island's ranks with the
// same ones.
// Compressed (options.code): each island sends its share of the mean, (w - x)/H, as block codes of 256 elements of a
// parameter, and the sum is sent on as such, with error feedback on both sides (compression/block_sum.h): what a code
// leaves out of a meeting comes to the next one. Vectors, too. Shares of the island's ranks are cut between blocks then,
// so a result does not depend on how many they are.
// Parameters that are state (Param::is_state) are left alone. Collective; errors: the groups'. Thread rule: one thread.
#pragma once

#include <memory>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"
#include "athanor/parallel/compression/block_sum.h"

namespace athanor {

struct OuterOptions {
  int64_t every = 1;  // steps
  double lr = 0.7;
  double momentum = 0.9;
  bool copies = false;  // inner: the ranks of the island that keep the same ranges (hybrid sharding)
  const BlockCode* code = nullptr;  // of what islands send each other; null: f32. One island sends nothing.
  bool error_feedback = true;
  Group* expert_group =
      nullptr;  // the island's ranks with the same experts (edp); null: experts are as everything else
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
  // Of islands that must do alike without a meeting: whether it is true in each of them. 8 bytes over the slow link.
  bool is_true_everywhere(bool here);

  // w and u of the elements `range` of a parameter, which this rank keeps; for checkpoints. Whoever sets them instead
  // of begin() says so.
  struct Piece {
    Param* param;
    FlatRange range;
    Tensor weights, momentum;
  };
  std::vector<Piece> pieces() const;
  // What the code left out and this rank keeps of it: of what its island sent, or of the sum of all.
  struct Residue {
    Param* param;
    FlatRange range;
    Tensor values;
    bool of_sum;
  };
  std::vector<Residue> residues() const;
  void set_begun();
  int island() const { return across_.rank(); }
  int num_islands() const { return across_.size(); }

 private:
  struct Segment {  // elements of a parameter's master, and where they are in a row
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
  int64_t total_ = 0, row_ = 0;  // elements of all masters, padded, and of this rank's share
  bool shared_out_ = false;      // masters are whole
  std::vector<Segment> mine_;
  Tensor weights_, momentum_;  // f32 [row]
  std::unique_ptr<BlockSum> coded_;
  bool begun_ = false;
  std::unique_ptr<OuterSync> experts_;  // of weights that lie on other ranks than everything else
};

}  // namespace athanor
