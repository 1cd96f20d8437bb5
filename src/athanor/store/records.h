// Records: pieces of memory of fixed sizes that are gone through in order, some at a time, wherever they are kept.
// Optimizer state, gradients and parameters are kept in them, so that whoever uses those does not know the place.
//
//   Records& records = ...;                                     // memory_records.h or disk_records.h
//   const int m = records.add("adam.m of 'head' [0, 4096)", 16384), v = records.add(...);
//   records.allocate(arena, Category::optimizer);               // zeros from here on
//   records.stream({{m, v}, ...}, Access::update, [&](size_t item, std::span<Tensor> bytes) {
//     ...                                                       // bytes[0] u8 [16384] is m, bytes[1] is v
//   });
//
// An item is what is needed at a time. On disk, items are read ahead of use and written behind it; in memory `bytes` is
// the record itself. On the null device nothing moves, but visit is called as ever. Thread rule: one thread. Errors:
// IoError from the disk, after which what was being changed is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/tensor/tensor.h"

namespace athanor {

enum class Access {
  read,    // what visit does to the bytes is forgotten
  write,   // the bytes are unspecified when visit gets them
  update,  // both
};

class Records {
 public:
  using Item = std::vector<int>;  // records
  using Visit = std::function<void(size_t item, std::span<Tensor> bytes)>;

  virtual ~Records() = default;
  virtual int add(const std::string& name,
                  uint64_t size_bytes) = 0;  // before allocate(); the name is for messages
  virtual void allocate(Arena& arena, Category category) = 0;
  virtual void stream(std::span<const Item> items, Access access, const Visit& visit) = 0;
  // Where a record is in memory for good; undefined where it is not.
  virtual Tensor resident(int record) const = 0;
};

// The same memory as elements of another type, from a byte on.
Tensor view_as(const Tensor& bytes, uint64_t first_byte, const Shape& shape, Dtype dtype);

}  // namespace athanor
