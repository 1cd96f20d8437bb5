#include "athanor/parallel/data/buckets.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/elementwise.h"

namespace athanor::parallel::data {
namespace {

// Small models also get several buckets, so that most of the reduction overlaps the backward pass.
constexpr int64_t kMinBuckets = 8;

bool is_shared(const Weight& weight) {
  return weight.param().num_uses() > 1;
}

}  // namespace

std::string names_of(const Bucket& bucket) {
  const std::string &first = bucket.weights.front()->param().name(),
                    &last = bucket.weights.back()->param().name();
  return first == last ? fmt::format("'{}'", first) : fmt::format("'{}' to '{}'", first, last);
}

Buckets::Buckets(const std::vector<Weight*>& weights, const BucketOptions& options) {
  std::unordered_map<const ParamSpec*, int> unit_of;
  int64_t floats = 0;
  int last = 0;
  for (const Weight* weight : weights) {
    if (num_units == 0 || weight->unit() != last) ++num_units;
    last = weight->unit();
    unit_of.emplace(&weight->param(), num_units - 1);
    floats += weight->param().numel();
  }
  const int64_t most =
      std::clamp<int64_t>(floats / kMinBuckets, 1, std::max<int64_t>(1, options.bucket_bytes / 4));
  int64_t held = 0;
  for (auto it = weights.rbegin(); it != weights.rend(); ++it) {
    Weight* weight = *it;
    const int64_t numel = weight->param().numel();
    const int unit = unit_of.at(&weight->param());
    const bool apart = ((options.rows > 1 || options.uses_apart) &&
                        (is_shared(*weight) || (!list.empty() && is_shared(*list.back().weights[0])))) ||
                       (options.section && !list.empty() &&
                        options.section(*weight) != options.section(*list.back().weights[0]));
    if (list.empty() || apart || held + numel > most || (options.by_unit && list.back().unit != unit)) {
      list.push_back({.weights = {}, .layout = {}, .unit = unit});
      held = 0;
    }
    list.back().weights.push_back(weight);
    held += numel;
  }
  for (size_t b = 0; b < list.size(); ++b) {
    Bucket& bucket = list[b];
    // Weights of whole norm blocks come first, so that they start at a block (shard_layout.h).
    std::stable_partition(bucket.weights.begin(), bucket.weights.end(),
                          [](const Weight* w) { return w->param().numel() % kNormBlock == 0; });
    std::vector<int64_t> numels;
    for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
      places[bucket.weights[slot]] = {b, slot};
      numels.push_back(bucket.weights[slot]->param().numel());
    }
    bucket.layout = lay_out(std::move(numels), options.rows);
    bucket.first = total;
    bucket.row_first = row_total;
    total += bucket.layout.total();
    row_total += bucket.layout.count;
  }
}

std::vector<Param*> Buckets::params(size_t bucket) const {
  std::vector<Param*> params;
  for (const Weight* weight : list[bucket].weights)
    if (weight == weight->param().uses().front().get()) params.push_back(&weight->param());
  return params;
}

}  // namespace athanor::parallel::data
