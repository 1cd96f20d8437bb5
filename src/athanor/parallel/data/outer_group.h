// The outer weights and momentum of one parameter group under local SGD (local_sgd.h has the outer step): dense
// parameters, or those of experts.
//
//   OuterGroup dense(params, inner, across, arena, options);
//   dense.begin();
//   dense.sync();      // an outer step
//
// Both are f32 and are split over `inner`, ranks of this replica group with equal weights. Where ZeRO has sharded the
// parameters over `inner`, each rank keeps those of its shard. Collective; errors: the groups'. Thread rule: one thread.
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
};

// A rank's shard of outer weights and momentum: the elements `range` of a parameter.
struct OuterPiece {
  Param* param;
  FlatRange range;
  Tensor weights, momentum;
};
// Error-feedback residuals that a rank holds: of what it sent, or (of_sum) of the sum that it sent on.
struct OuterResidual {
  Param* param;
  FlatRange range;
  Tensor values;
  bool of_sum;
};

class OuterGroup {
 public:
  OuterGroup(std::vector<Param*> params, Group& inner, Group& across, Arena& arena,
             const OuterOptions& options);
  void begin();  // outer weights become the current ones
  void sync();
  void add_pieces(std::vector<OuterPiece>& pieces) const;
  void add_residuals(std::vector<OuterResidual>& residuals) const;

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
};

}  // namespace athanor::parallel::data
