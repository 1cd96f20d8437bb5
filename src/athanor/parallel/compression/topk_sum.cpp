#include "athanor/parallel/compression/topk_sum.h"

#include <algorithm>
#include <bit>

namespace athanor::parallel::compression {

TopkSum::TopkSum(std::string name, std::vector<SumTensor> tensors, double ratio, Group& group, Arena& arena,
                 bool error_feedback)
    : name_(std::move(name)),
      tensors_(std::move(tensors)),
      group_(group),
      arena_(arena),
      feedback_(numels_of(tensors_), arena, error_feedback) {
  for (const SumTensor& tensor : tensors_) {
    check(tensor.numel() <= INT32_MAX, "topk: '{}' has {} elements, expected fewer than 2^31", tensor.name,
          tensor.numel());
    firsts_.push_back(total_);
    counts_.push_back(topk_count(tensor.numel(), ratio));
    total_ += counts_.back();
  }
}

void TopkSum::select(size_t tensor, Tensor& magnitudes) {
  const int64_t numel = tensors_[tensor].numel(), count = counts_[tensor];
  float* x = grads_[tensor].data<float>();
  feedback_.add(tensor, 0, numel, x);
  int32_t* index = sent_.data<int32_t>() + firsts_[tensor];
  take_largest(x, numel, count, magnitudes.data<int32_t>(), index, index + total_);
  feedback_.keep_rest(tensor, x);
}

void TopkSum::start(std::vector<Tensor> grads) {
  grads_ = std::move(grads);
  sent_ = empty(arena_, {2 * total_}, Dtype::i32, Category::communication);
  received_ = empty(arena_, {group_.size() * 2 * total_}, Dtype::i32, Category::communication);
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Tensor magnitudes = empty(arena_, {tensors_[t].numel()}, Dtype::i32, Category::workspace);
    if (arena_.queue().device() != Device::null) select(t, magnitudes);
  }
  work_ = group_.all_gather(sent_.raw(), received_.raw(), 2 * total_, Dtype::i32, name_);
}

void TopkSum::finish(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  arena_.queue().parallel_for(static_cast<int64_t>(tensors_.size()), [&](int64_t task) {
    const auto t = static_cast<size_t>(task);
    float* x = grads_[t].data<float>();
    std::fill_n(x, tensors_[t].numel(), 0.0f);
    for (int rank = 0; rank < group_.size(); ++rank) {
      const int32_t* index = received_.data<int32_t>() + rank * 2 * total_ + firsts_[t];
      const int32_t* value = index + total_;
      for (int64_t i = 0; i < counts_[t]; ++i) x[index[i]] += std::bit_cast<float>(value[i]);
    }
  });
  grads_.clear();
  sent_ = received_ = {};
}

std::vector<SumState> TopkSum::states() const {
  std::vector<SumState> states;
  for (size_t t = 0; feedback_.enabled() && t < tensors_.size(); ++t)
    states.push_back({StateKind::residual, t, {0, tensors_[t].numel()}, feedback_.residual(t)});
  return states;
}

}  // namespace athanor::parallel::compression
