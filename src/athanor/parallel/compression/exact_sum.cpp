#include "athanor/parallel/compression/exact_sum.h"

namespace athanor::parallel::compression {

void ExactSum::start(std::vector<Tensor> grads) {
  grads_ = std::move(grads);
  int64_t count = 0;
  for (const Tensor& grad : grads_) count += grad.numel();
  packed_ = empty(arena_, {count}, Dtype::f32, Category::communication);
  int64_t first = 0;
  for (const Tensor& grad : grads_) {
    Tensor place = packed_.flat(first, grad.numel());
    copy_from_host(place, grad.raw(), grad.size_bytes());
    first += grad.numel();
  }
  work_ = group_.all_reduce(packed_.raw(), count, Dtype::f32, name_);
}

void ExactSum::proceed(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  int64_t first = 0;
  for (const Tensor& grad : grads_) {
    const Tensor place = packed_.flat(first, grad.numel());
    copy_to_host(grad.raw(), place, place.size_bytes());
    first += grad.numel();
  }
  grads_.clear();
  packed_ = {};
}

}  // namespace athanor::parallel::compression
