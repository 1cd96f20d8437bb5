#include "athanor/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "athanor/tensor/device_memory.h"

namespace athanor::tensor {

Tensor::Tensor(std::shared_ptr<Storage> storage, uint64_t offset_bytes, Shape shape, Dtype dtype)
    : storage_(std::move(storage)), offset_bytes_(offset_bytes), shape_(shape), dtype_(dtype) {
  check(offset_bytes_ + size_bytes() <= storage_->size_bytes(),
        "tensor: {} {} at byte {} exceeds its storage of {} bytes", name_of(dtype_), shape_, offset_bytes_,
        storage_->size_bytes());
}

Tensor Tensor::view(const Shape& shape) const {
  check(shape.numel() == numel(), "view: {} has {} elements, expected those of {}", shape, shape.numel(),
        shape_);
  return {storage_, offset_bytes_, shape, dtype_};
}

Tensor Tensor::slice(int64_t first, int64_t last) const {
  check(shape_.dims() > 0 && 0 <= first && first <= last && last <= dim(0), "slice: [{}, {}) of {}", first,
        last, shape_);
  Shape shape{last - first};
  int64_t row = 1;
  for (int i = 1; i < shape_.dims(); ++i) {
    shape.push_back(shape_[i]);
    row *= shape_[i];
  }
  return {storage_, offset_bytes_ + static_cast<uint64_t>(first * row) * size_of(dtype_), shape, dtype_};
}

Tensor Tensor::flat(int64_t first, int64_t count) const {
  check(0 <= first && 0 <= count && first + count <= numel(), "flat: {} elements at {} of {}", count, first,
        shape_);
  return {storage_, offset_bytes_ + static_cast<uint64_t>(first) * size_of(dtype_), Shape{count}, dtype_};
}

Tensor empty(Arena& arena, const Shape& shape, Dtype dtype, Category category) {
  return {arena.allocate(static_cast<uint64_t>(shape.numel()) * size_of(dtype), category), 0, shape, dtype};
}

Tensor zeros(Arena& arena, const Shape& shape, Dtype dtype, Category category) {
  const auto storage = arena.allocate(static_cast<uint64_t>(shape.numel()) * size_of(dtype), category);
  Tensor x(storage, 0, shape, dtype);
  if (!storage->fresh()) fill_zero(x);
  return x;
}

Tensor empty_like(const Tensor& x, Category category) {
  return empty(x.arena(), x.shape(), x.dtype(), category);
}

void copy_from_host(Tensor& to, const void* from, uint64_t size_bytes) {
  check(to.size_bytes() == size_bytes, "copy: got {} bytes, expected {}", size_bytes, to.size_bytes());
  if (size_bytes == 0 || to.queue().device() == Device::null) return;
  if (DeviceMemory* device = to.queue().device_memory()) return device->copy_in(to.raw(), from, size_bytes);
  std::memcpy(to.raw(), from, size_bytes);
}

void copy_to_host(void* to, const Tensor& from, uint64_t size_bytes) {
  check(from.size_bytes() == size_bytes, "copy: got {} bytes, expected {}", size_bytes, from.size_bytes());
  if (size_bytes == 0 || from.queue().device() == Device::null) return;
  if (DeviceMemory* device = from.queue().device_memory())
    return device->copy_out(to, from.raw(), size_bytes);
  std::memcpy(to, from.raw(), size_bytes);
}

void copy(Tensor& to, const Tensor& from) {
  check(to.size_bytes() == from.size_bytes(), "copy: got {} bytes, expected {}", from.size_bytes(),
        to.size_bytes());
  check(&to.queue() == &from.queue(), "copy: the tensors lie on two queues");
  if (to.size_bytes() == 0 || to.queue().device() == Device::null) return;
  if (DeviceMemory* device = to.queue().device_memory())
    return device->copy(to.raw(), from.raw(), to.size_bytes());
  std::memcpy(to.raw(), from.raw(), to.size_bytes());
}

void fill_zero(Tensor& x) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  auto* const data = static_cast<std::byte*>(x.raw());
  const uint64_t size_bytes = x.size_bytes();
  if (DeviceMemory* device = x.queue().device_memory(); device != nullptr && size_bytes > 0)
    return device->clear(data, size_bytes);
  x.queue().parallel_for(static_cast<int64_t>((size_bytes + kBlock - 1) / kBlock), [=](int64_t block) {
    const uint64_t first = static_cast<uint64_t>(block) * kBlock;
    std::memset(data + first, 0, std::min(kBlock, size_bytes - first));
  });
}

}  // namespace athanor::tensor
