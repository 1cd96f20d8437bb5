#include "athanor/engine/expert_load.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "athanor/comm/tree.h"

namespace athanor::engine {

ExpertLoads::ExpertLoads(std::vector<MoeLayer*> layers, int64_t num_micro_batches)
    : layers_(std::move(layers)), num_micro_batches_(num_micro_batches) {
  if (layers_.empty()) return;
  for (const MoeLayer* layer : layers_) {
    chosen_.emplace_back(static_cast<size_t>(layer->options().experts), 0);
    layer->take_load();  // discards the counts of a step that failed
  }
  losses_.assign(static_cast<size_t>(num_micro_batches) * layers_.size() * 2, 0.0);
}

void ExpertLoads::take(int64_t micro_batch) {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const RouterLoad load = layers_[l]->take_load();
    for (size_t e = 0; e < chosen_[l].size(); ++e) chosen_[l][e] += load.chosen[e];
    dropped_ += load.dropped;
    tokens_ += load.tokens;
    loss(micro_batch, l, 0) += load.aux_loss;
    loss(micro_batch, l, 1) += load.z_loss;
  }
}

void ExpertLoads::reduce(Group& group) {
  if (layers_.empty()) return;
  std::vector<int64_t> counts = {dropped_, tokens_};
  for (const auto& layer : chosen_) counts.insert(counts.end(), layer.begin(), layer.end());
  Work first = group.all_reduce(counts.data(), std::ssize(counts), Dtype::i64, "expert load");
  Work second = group.all_reduce(losses_.data(), std::ssize(losses_), Dtype::f64, "router losses");
  first.wait();
  second.wait();
  dropped_ = counts[0];
  tokens_ = counts[1];
  auto next = counts.begin() + 2;
  for (auto& layer : chosen_)
    for (int64_t& count : layer) count = *next++;
}

// Sums the layers of each micro-batch in order, then the micro-batches, whichever rank computed them.
double ExpertLoads::sum_over_micro_batches(size_t which) {
  std::vector<double> micro_batches(static_cast<size_t>(num_micro_batches_), 0.0);
  for (int64_t micro_batch = 0; micro_batch < num_micro_batches_; ++micro_batch)
    for (size_t layer = 0; layer < layers_.size(); ++layer)
      micro_batches[static_cast<size_t>(micro_batch)] += loss(micro_batch, layer, which);
  return tree_sum(micro_batches);
}

std::optional<ExpertLoad> ExpertLoads::summary() {
  if (layers_.empty()) return std::nullopt;
  ExpertLoad load;
  load.chosen = chosen_;
  int64_t choices = 0;
  for (const auto& layer : chosen_) {
    const int64_t sum = std::accumulate(layer.begin(), layer.end(), int64_t{0});
    const auto largest = static_cast<double>(*std::max_element(layer.begin(), layer.end()));
    choices += sum;
    load.layers.push_back(sum == 0 ? 1.0
                                   : largest * static_cast<double>(layer.size()) / static_cast<double>(sum));
  }
  load.max_over_mean = *std::max_element(load.layers.begin(), load.layers.end());
  const auto per = [](double value, int64_t count) {
    return value / static_cast<double>(std::max<int64_t>(1, count));
  };
  load.drop_share = per(static_cast<double>(dropped_), choices);
  load.aux_loss = per(sum_over_micro_batches(0), tokens_);
  load.z_loss = per(sum_over_micro_batches(1), tokens_);
  return load;
}

void ExpertLoads::balance() {
  for (size_t l = 0; l < layers_.size(); ++l) layers_[l]->balance(chosen_[l]);
}

}  // namespace athanor::engine
