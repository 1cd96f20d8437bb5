// What the routers of a step did, over all grains and ranks: for the metrics, and for the balancing bias.
//
//   ExpertLoads loads(model.moe_layers(), num_grains);
//   loads.take(grain);                    // after each grain of this rank, or each part of one
//   loads.reduce(group);                  // exact counts; losses of grains of which each rank has seen its tokens
//   result.experts = loads.summary();     // none where the model has no experts
//   loads.balance();                      // at the commit point: moves the biases
//
// Counts are exact integers and the losses are summed over the grains in the fixed tree, so all of it has the same
// bits for any number of ranks (law 5). Thread rule: one thread.
#pragma once

#include <optional>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/moe.h"

namespace athanor {

struct ExpertLoad {
  double max_over_mean = 1.0;  // choices of the busiest expert over the mean, of the worst layer
  std::vector<double> layers;  // the same for each layer with experts
  double drop_share = 0.0;     // dropped choices over all choices
  std::vector<std::vector<int64_t>> chosen;  // choices of each expert, by layer
  double aux_loss = 0.0,
         z_loss = 0.0;  // per token and layer, without their coefficients; aux is 1 where even
};

class ExpertLoads {
 public:
  ExpertLoads(std::vector<MoeLayer*> layers, int64_t num_grains);

  void take(int64_t grain);
  void reduce(Group& group);
  std::optional<ExpertLoad> summary();
  void balance();

 private:
  double& loss(int64_t grain, size_t layer, size_t which) {
    return losses_[(static_cast<size_t>(grain) * layers_.size() + layer) * 2 + which];
  }
  double sum_over_grains(size_t which);

  std::vector<MoeLayer*> layers_;
  int64_t num_grains_;
  std::vector<std::vector<int64_t>> chosen_;  // of each layer, [E]
  int64_t dropped_ = 0, tokens_ = 0;          // summed over the layers
  std::vector<double> losses_;                // [grains, layers, 2]: aux, z
};

}  // namespace athanor
