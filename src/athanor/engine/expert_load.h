// Statistics of the routers over one step, all micro-batches and all ranks: for the metrics and for the balancing bias.
//
//   ExpertLoads loads(model.moe_layers(), num_micro_batches);
//   loads.take(micro_batch);                    // after each micro-batch of this rank, or after this rank's tokens of it
//   loads.reduce(group);                  // sums over the group: choices, drops, tokens, losses
//   result.experts = loads.summary();     // none where the model has no experts
//   loads.balance();                      // at the commit point: moves the biases
//
// Counts are exact integers. Losses are summed over the micro-batches in the fixed tree (comm/tree.h). Both have the
// same bits for any number of ranks (law 5). Errors: those of the group. Thread rule: one thread.
#pragma once

#include <optional>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/moe.h"

namespace athanor::engine {

struct ExpertLoad {
  double max_over_mean = 1.0;  // load imbalance: choices of the busiest expert / mean, in the worst layer
  std::vector<double> layers;  // load imbalance of each layer with experts
  double drop_share = 0.0;     // dropped choices over all choices
  std::vector<std::vector<int64_t>> chosen;  // choices of each expert, by layer
  double aux_loss = 0.0,
         z_loss = 0.0;  // per token and layer, without coefficients; aux_loss is 1 under an even load
};

class ExpertLoads {
 public:
  ExpertLoads(std::vector<MoeLayer*> layers, int64_t num_micro_batches);

  void take(int64_t micro_batch);
  void reduce(Group& group);
  std::optional<ExpertLoad> summary();
  void balance();

 private:
  double& loss(int64_t micro_batch, size_t layer, size_t which) {
    return losses_[(static_cast<size_t>(micro_batch) * layers_.size() + layer) * 2 + which];
  }
  double sum_over_micro_batches(size_t which);

  std::vector<MoeLayer*> layers_;
  int64_t num_micro_batches_;
  std::vector<std::vector<int64_t>> chosen_;  // of each layer, [E]
  int64_t dropped_ = 0, tokens_ = 0;          // summed over the layers
  std::vector<double> losses_;                // [micro-batches, layers, 2]: aux, z
};

}  // namespace athanor::engine
