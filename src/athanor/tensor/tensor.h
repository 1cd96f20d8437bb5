// A Tensor: a shape, an element type and a place in memory, always dense and row-major. Values and memory
// only; arithmetic is kernels/.
//
//   Tensor x = empty(arena, {B, T, C}, Dtype::bf16, Category::activations);
//   Tensor rows = x.view({B * T, C});        // same memory, other shape
//   Tensor part = x.slice(1, 3);             // rows 1 and 2 of the outermost dimension, same memory
//   float* values = y.data<float>();         // checked against the dtype
//
// Copying a Tensor shares its memory; the memory is freed with the last copy. A default Tensor is undefined.
// Thread rule: as any plain value. The memory itself is not guarded: the caller orders reads and writes.
#pragma once

#include <memory>

#include "athanor/tensor/arena.h"
#include "athanor/tensor/dtype.h"
#include "athanor/tensor/shape.h"

namespace athanor::tensor {

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, uint64_t offset_bytes, Shape shape, Dtype dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int index) const { return shape_[index]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t rows() const { return shape_.rows(); }
  Dtype dtype() const { return dtype_; }
  uint64_t size_bytes() const { return static_cast<uint64_t>(numel()) * size_of(dtype_); }
  Arena& arena() const { return storage_->arena(); }
  Queue& queue() const { return storage_->arena().queue(); }

  bool unshared() const { return storage_.use_count() == 1; }  // no other tensor sees this memory

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  // The address as a pointer that keeps the memory, for Group::share.
  std::shared_ptr<std::byte> memory() const { return {storage_, static_cast<std::byte*>(raw())}; }

  void* raw() const {
    check(!storage_->released(), "tensor: the memory of {} {} was released", name_of(dtype_), shape_);
    return storage_->data() + offset_bytes_;
  }
  template <typename T>
  T* data() const {
    check(dtype_ == DtypeOf<T>::value, "tensor: asked for {}, holds {}", name_of(DtypeOf<T>::value),
          name_of(dtype_));
    return static_cast<T*>(raw());
  }

  Tensor view(const Shape& shape) const;            // same number of elements
  Tensor slice(int64_t first, int64_t last) const;  // [first, last) of the outermost dimension
  Tensor flat(int64_t first, int64_t count) const;  // elements [first, first + count), one-dimensional

 private:
  std::shared_ptr<Storage> storage_;
  uint64_t offset_bytes_ = 0;
  Shape shape_;
  Dtype dtype_ = Dtype::f32;
};

Tensor empty(Arena& arena, const Shape& shape, Dtype dtype, Category category);
Tensor zeros(Arena& arena, const Shape& shape, Dtype dtype, Category category);
Tensor empty_like(const Tensor& x, Category category = Category::activations);
// Copies between host memory and a tensor; size_bytes must be the tensor's. On the null device they do nothing.
void copy_from_host(Tensor& to, const void* from, uint64_t size_bytes);
void copy_to_host(void* to, const Tensor& from, uint64_t size_bytes);
void copy(Tensor& to, const Tensor& from);  // same size, same queue, no overlap
void fill_zero(Tensor& x);

}  // namespace athanor::tensor
