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
// share, and they tell each other: so an island sends 2 (H-1)/H 4 bytes a parameter over the slow link each time,
// however many ranks it has, once in k steps. w and u are f32, 8 bytes a parameter, shared out in the island.
// Parameters that are state (Param::is_state) are left alone. Collective; errors: the groups'. Thread rule: one thread.
#pragma once

#include <memory>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/comm/group.h"

namespace athanor {

struct OuterOptions {
  int64_t every = 1;  // steps
  double lr = 0.7;
  double momentum = 0.9;
};

class OuterSync {
 public:
  OuterSync(const std::vector<std::unique_ptr<Param>>& params, Group& inner, Group& across, Arena& arena,
            const OuterOptions& options);
  void begin();  // does nothing the second time
  bool due(int64_t step) const { return step % options_.every == 0; }
  void sync();

  // w and u of the elements `range` of a parameter, which this rank keeps; for checkpoints. Whoever sets them instead
  // of begin() says so.
  struct Piece {
    Param* param;
    FlatRange range;
    Tensor weights, momentum;
  };
  std::vector<Piece> pieces() const;
  void set_begun() { begun_ = true; }
  int island() const { return across_.rank(); }
  int num_islands() const { return across_.size(); }

 private:
  struct Segment {  // elements of a parameter's master, and where they are in a row
    Param* param;
    int64_t first, count, at;
  };
  std::vector<Segment> segments_of(int rank) const;
  void write_masters(const std::vector<Segment>& segments, const float* row);

  Group &inner_, &across_;
  Arena& arena_;
  OuterOptions options_;
  std::vector<Param*> params_;
  int64_t total_ = 0, row_ = 0;  // elements of all masters, of this rank's share
  bool shared_out_ = false;      // masters are whole
  std::vector<Segment> mine_;
  Tensor weights_, momentum_;  // f32 [row]
  bool begun_ = false;
};

}  // namespace athanor
