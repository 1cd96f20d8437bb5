#include "athanor/autograd/param.h"

#include <utility>
#include <vector>

#include "athanor/kernels/table.h"

namespace athanor::autograd {

Weight::GradSlot Weight::grad_slot() {
  if (!grad_.defined() && source_ != nullptr) source_->need(*this);
  check(grad_.defined(), "weight: '{}' has no gradient buffer; is this model being trained?", use_);
  zero_elsewhere_ = false;
  rows_ = {};
  return {grad_, std::exchange(begun_, true)};
}

Tensor& Weight::grad() {
  const GradSlot slot = grad_slot();
  if (!slot.add) fill_zero(slot.tensor);
  return slot.tensor;
}

Tensor& Weight::grad_rows(const Tensor& ids) {
  if (begun_) return grad();                        // something else was added, perhaps to other rows
  if (!zero_elsewhere_ || rows_.defined()) grad();  // clears the slot
  begun_ = zero_elsewhere_ = true;
  rows_ = ids;
  return grad_;
}

void Weight::move_rows(Tensor& sum) {
  check(zero_elsewhere_, "weight: '{}' does not know the rows of its gradient", use_);
  if (rows_.defined()) kernels_of(sum).embedding.move_rows(sum.queue(), sum, grad_, rows_);
  rows_ = {};
}

void Weight::set_grad(Tensor slot) {
  if (!grad_.defined() || slot.raw() != grad_.raw()) {
    zero_elsewhere_ = false;
    rows_ = {};
  }
  grad_ = std::move(slot);
  begun_ = true;
}

void Weight::drop_grad() {
  grad_ = {};
  rows_ = {};
  zero_elsewhere_ = false;
}

void Param::keep_uses(const std::function<bool(int unit)>& here) {
  std::vector<std::unique_ptr<Weight>> kept;
  for (auto& use : uses_) (here(use->unit()) ? kept : uses_elsewhere_).push_back(std::move(use));
  uses_ = std::move(kept);
}

}  // namespace athanor::autograd
