#include "athanor/autograd/param.h"

#include <algorithm>
#include <utility>

#include "athanor/base/philox.h"
#include "athanor/kernels/table.h"

namespace athanor {
namespace {
// Small enough that the threads share even the matrices of small models evenly.
constexpr int64_t kBlock = 1 << 13;
int64_t num_blocks(int64_t numel) {
  return (numel + kBlock - 1) / kBlock;
}
}  // namespace

Weight::GradSlot Weight::grad_slot() {
  check(grad_.defined(), "weight: '{}' has no gradient slot; is this model being trained?", use_);
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
  if (begun_) return grad();                        // what else was added may lie in other rows
  if (!zero_elsewhere_ || rows_.defined()) grad();  // clears it
  begun_ = zero_elsewhere_ = true;
  rows_ = ids;
  return grad_;
}

void Weight::move_rows(Tensor& sum) {
  check(zero_elsewhere_, "weight: '{}' does not know the rows of its gradient", use_);
  if (rows_.defined()) kernels(sum).embedding.move_rows(sum.queue(), sum, grad_, rows_);
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

Weight& Param::add_use(const std::string& use) {
  uses_.push_back(std::make_unique<Weight>(*this, use));
  return *uses_.back();
}

void Param::allocate(Arena& arena, Dtype dtype, bool with_master) {
  value_ = empty(arena, shape_, dtype, Category::parameters);
  if (dtype == Dtype::f32) {
    master_ = value_;
  } else if (with_master) {
    master_ = empty(arena, shape_, Dtype::f32, Category::optimizer);
  }
}

void Param::initialize(uint64_t seed) {
  Queue& queue = value_.queue();
  if (queue.device() == Device::null) return;
  const RandomStream stream(seed, name_);
  Tensor master = master_;
  if (!master.defined()) master = empty(value_.arena(), shape_, Dtype::f32, Category::workspace);
  queue.parallel_for(num_blocks(numel()), [&](int64_t block) {
    const int64_t first = block * kBlock, last = std::min(first + kBlock, numel());
    float* out = master.data<float>() + first;
    if (init_.kind == Init::Kind::normal) {
      stream.fill_normal(out, static_cast<uint64_t>(first), static_cast<uint64_t>(last - first), init_.std);
    } else {
      std::fill(out, out + (last - first), init_.kind == Init::Kind::ones ? 1.0f : 0.0f);
    }
  });
  if (value_.dtype() != Dtype::f32) kernels(value_).elementwise.cast(queue, value_, master);
}

void Param::store(const float* values) {
  Queue& queue = value_.queue();
  if (queue.device() == Device::null) return;
  Tensor master = master_;
  if (!master.defined()) master = empty(value_.arena(), shape_, Dtype::f32, Category::workspace);
  copy_from_host(master, values, master.size_bytes());
  if (value_.dtype() != Dtype::f32) kernels(value_).elementwise.cast(queue, value_, master);
}

void Param::load(float* values) const {
  Queue& queue = value_.queue();
  if (queue.device() == Device::null) return;
  Tensor master = master_;
  if (!master.defined()) {
    master = empty(value_.arena(), shape_, Dtype::f32, Category::workspace);
    kernels(value_).elementwise.cast(queue, master, value_);
  }
  copy_to_host(values, master, master.size_bytes());
}

}  // namespace athanor
