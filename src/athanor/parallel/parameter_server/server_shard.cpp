#include "athanor/parallel/parameter_server/server_shard.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::parameter_server {

ServerShard::ServerShard(const std::vector<Weight*>& weights, int server, Arena& arena,
                         const ServerSettings& settings)
    : server_(server),
      arena_(arena),
      reduce_(settings.reduce),
      buckets_(weights, settings.buckets()),
      values_(buckets_.list.size()),
      partials_(buckets_.list.size()) {
  keep_rows(settings.dtype);
}

void ServerShard::keep_rows(Dtype dtype) {
  for (size_t b = 0; b < buckets_.list.size(); ++b) {
    const std::vector<Param*> params = buckets_.params(b);
    if (params.empty()) continue;
    const ShardLayout& layout = buckets_.list[b].layout;
    values_[b] = zeros(arena_, {layout.count}, dtype, Category::parameters);  // padding is sent, too
    for (size_t slot = 0; slot < params.size(); ++slot) {
      const FlatRange range = layout.piece(slot, server_);
      params[slot]->keep(range, values_[b].flat(layout.start_in_row(slot, server_), range.count()), this);
    }
  }
}

void ServerShard::need(const ParamStorage& param) {
  fail(
      "parameter server: got a forward use of '{}' on a server, expected none: a server has only a shard of "
      "it",
      param.spec().name());
}

FlatRange ServerShard::piece(const Param& param, int server) const {
  const auto [bucket, slot] = buckets_.of(*param.uses().front());
  return buckets_.list[bucket].layout.piece(slot, server);
}

Tensor ServerShard::partial(size_t index, size_t bucket) {
  const int64_t count = buckets_.list[bucket].layout.count;
  if (!sum_.defined()) sum_ = zeros(arena_, {buckets_.row_total}, Dtype::f32, Category::gradients);
  if (index == 0) return sum_.flat(buckets_.list[bucket].row_first, count);
  int64_t longest = 0;
  for (const Bucket& each : buckets_.list) longest = std::max(longest, each.layout.count);
  while (others_.size() < index)
    others_.push_back(zeros(arena_, {longest}, Dtype::f32, Category::communication));
  return others_[index - 1].flat(0, count);
}

Tensor ServerShard::incoming(size_t bucket) {
  return partial(partials_[bucket].size(), bucket);
}

void ServerShard::take(size_t bucket, const LeafRange& node, int64_t num_leaves) {
  std::vector<LeafRange>& partials = partials_[bucket];
  partials.push_back(node);
  while (partials.size() >= 2) {
    const LeafRange right = partials.back();
    LeafRange& left = partials[partials.size() - 2];
    check(left.second == right.first, "parameter server: got the sum of [{}, {}) after [{}, {})", right.first,
          right.second, left.first, left.second);
    if (reduce_ == Reduce::tree && !are_one_node(left, right, num_leaves)) return;
    left.second = right.second;
    partials.pop_back();
    Tensor sum = partial(partials.size() - 1, bucket);
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum, partial(partials.size(), bucket));
  }
}

// Adds the gradients of a shared parameter's uses in the order of declaration.
void ServerShard::finish() {
  for (std::vector<LeafRange>& partials : partials_) {
    check(partials.size() == 1, "parameter server: got {} partial sums of a bucket, expected one",
          partials.size());
    partials.clear();
  }
  for (const Bucket& bucket : buckets_.list)
    for (const Weight* weight : bucket.weights) {
      const Param& param = weight->param();
      if (weight != param.uses().front().get()) continue;
      const auto piece_of = [&](const Weight& use) {
        const auto [b, slot] = buckets_.of(use);
        const ShardLayout& layout = buckets_.list[b].layout;
        return partial(0, b).flat(layout.start_in_row(slot, server_), layout.piece(slot, server_).count());
      };
      Tensor sum = piece_of(*weight);
      for (size_t i = 1; i < param.uses().size(); ++i)
        kernels_of(sum).elementwise.accumulate(sum.queue(), sum, piece_of(*param.uses()[i]));
      grads_[&param] = sum;
    }
}

}  // namespace athanor::parallel::parameter_server
