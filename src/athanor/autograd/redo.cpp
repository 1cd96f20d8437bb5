#include "athanor/autograd/redo.h"

namespace athanor::autograd {

void Redo::forget() {
  if (const auto storage = value_.lock()) storage->release();
}

void Redo::restore() {
  const auto storage = value_.lock();
  if (storage == nullptr || !storage->released()) return;
  for (const auto& input : inputs_) input->restore();
  storage->take(*make_().storage());
}

}  // namespace athanor::autograd
