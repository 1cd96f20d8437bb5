#include "athanor/parallel/compression/set_exchange.h"

#include <utility>

namespace athanor {

void SetExchange::start(Sum sum) {
  arriving_.push_back(std::move(sum));
  while (arriving_.size() > 1) code_oldest();
}

void SetExchange::code_oldest() {
  Sum oldest = std::move(arriving_.front());
  arriving_.pop_front();
  clock_.wait(oldest.arriving, "wait for gradients");
  compressed_.start(oldest.bucket, codes_shares() ? oldest.row : oldest.whole);
  if (!codes_shares()) coded_.push_back(std::move(oldest));
}

void SetExchange::finish() {
  while (!arriving_.empty()) code_oldest();
  compressed_.finish(clock_);
  for (Sum& sum : coded_) {
    if (sum.row.queue().device() == Device::null) continue;
    float* whole = owner(sum.bucket) == inner_.rank() ? sum.whole.data<float>() : nullptr;
    sum.arriving = inner_.scatter(whole, sum.row.data<float>(), buckets_.list[sum.bucket].layout.count,
                                  Dtype::f32, owner(sum.bucket), "sums of gradients");
  }
  for (Sum& sum : coded_) clock_.wait(sum.arriving, "wait for gradients");
  coded_.clear();
}

}  // namespace athanor
