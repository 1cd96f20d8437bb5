#include "athanor/autograd/selective_recompute.h"

namespace athanor::autograd {

void RecomputedValue::release() {
  if (const auto storage = value_.lock()) storage->release();
}

void RecomputedValue::restore() {
  const auto storage = value_.lock();
  if (storage == nullptr || !storage->released()) return;
  for (const auto& input : inputs_) input->restore();
  storage->take(*make_().storage());
}

}  // namespace athanor::autograd
