#include "athanor/parallel/data/bucket_sum.h"

#include <string>
#include <utility>

namespace athanor::parallel::data {
namespace {

std::string name_of(size_t bucket) {
  return "gradients " + std::to_string(bucket);
}

void wait_for_all(std::vector<Work>& works, WaitClock& clock) {
  for (Work& work : works) clock.wait(work, "wait for gradients");
  works.clear();
}

}  // namespace

void RankSum::start(size_t bucket, const std::vector<PartialSum>& parts, int64_t num_leaves) {
  const Tensor& values = parts.front().values;
  if (group_.size() == 1) return;
  if (exchange_ != nullptr && exchange_->active()) return exchange_->start(bucket, values);
  const ShardLayout& layout = buckets_.list[bucket].layout;
  float* data = values.data<float>();
  if (reduce_ == Reduce::tree) {
    std::vector<TreeNode> nodes;
    for (const auto& [range, part] : parts) nodes.push_back({range.first, range.second, part.data<float>()});
    works_.push_back(
        group_.all_reduce_tree(std::move(nodes), num_leaves, data, layout.total(), name_of(bucket)));
  } else if (layout.rows == 1) {
    works_.push_back(group_.all_reduce(data, layout.total(), Dtype::f32, name_of(bucket)));
  } else {
    works_.push_back(group_.reduce_scatter(data, data + group_.rank() * layout.count, layout.count,
                                           Dtype::f32, name_of(bucket)));
  }
}

void RankSum::finish() {
  wait_for_all(works_, clock_);
  if (exchange_ != nullptr) exchange_->finish(clock_);
}

void HybridSum::begin_step() {
  scattered_.clear();
  works_.clear();
}

void HybridSum::start(size_t bucket, const std::vector<PartialSum>& parts, int64_t /*num_leaves*/) {
  const Tensor& whole = parts.front().values;
  const int64_t count = buckets_.list[bucket].layout.count;
  Scatter next{.bucket = bucket, .shard = whole.flat(inner_.rank() * count, count), .work = {}};
  next.work = inner_.reduce_scatter(whole.data<float>(), next.shard.data<float>(), count, Dtype::f32,
                                    name_of(bucket));
  while (!scattered_.empty()) sum_oldest_across();
  scattered_.push_back(std::move(next));
}

void HybridSum::sum_oldest_across() {
  Scatter oldest = std::move(scattered_.front());
  scattered_.pop_front();
  clock_.wait(oldest.work, oldest.shard.queue(), "wait for gradients");
  if (exchange_ != nullptr && exchange_->active())
    exchange_->start(oldest.bucket, oldest.shard);
  else
    works_.push_back(across_.all_reduce(oldest.shard.data<float>(), oldest.shard.numel(), Dtype::f32,
                                        "gradients between shard groups"));
}

void HybridSum::finish() {
  while (!scattered_.empty()) sum_oldest_across();
  wait_for_all(works_, clock_);
  if (exchange_ != nullptr) exchange_->finish(clock_);
}

}  // namespace athanor::parallel::data
