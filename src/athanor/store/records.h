// Records: pieces of memory of fixed size that are visited in order, a few at a time, whether they are in memory or
// offloaded. Optimizer state, gradients and parameters are stored in them, so that their users do not depend on the
// place.
//
//   Records& records = ...;                                     // memory_records.h, host_records.h or disk_records.h
//   const int m = records.add("adam.m of 'head' [0, 4096)", 16384), v = records.add(...);
//   records.allocate(arena, Category::optimizer);               // zeros from here on
//   records.stream({{m, v}, ...}, Access::update, [&](size_t item, std::span<Tensor> bytes) {
//     ...                                                       // bytes[0] u8 [16384] is m, bytes[1] is v
//   });
//
// An item is a set of records that are needed together. Offloaded items are read ahead of use and written behind it; in
// memory `bytes` are the records themselves. On the null device nothing moves, but visit is called as usual. Errors:
// IoError from the disk, after which the records being changed are lost. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/tensor/tensor.h"

namespace athanor::store {

enum class Access {
  read,    // changes that visit makes to the bytes are discarded
  write,   // visit gets unspecified bytes and sets all of them
  update,  // visit gets the bytes and may change them
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
  // The record's permanent memory; undefined where it is offloaded.
  virtual Tensor resident(int record) const = 0;
};

// A view of `bytes` from first_byte on, as elements of another dtype.
Tensor view_as(const Tensor& bytes, uint64_t first_byte, const Shape& shape, Dtype dtype);

}  // namespace athanor::store
