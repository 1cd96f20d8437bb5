// Weight prepacking: a weight that several micro-batches of a step multiply by is packed once and reused until it
// changes.
//
//   PackedWeights packed(arena);
//   for (const auto& param : params) packed.hold(param->value());
//   {
//     const PackedWeights::Scope scope(packed, queue);  // values must not change while it lives
//     ... forward and backward passes of all micro-batches ...
//   }
//   ... update ...
//
// A product looks its second operand up here by address. The first product of a scope to do so packs the weight in the
// form it needs. Results have the same bits as without packing. Cost: 2 bytes of workspace per parameter and form,
// taken at first use; training uses two forms, for the forward and the backward pass. Thread rule: that of the queue.
#pragma once

#include <map>
#include <utility>

#include "athanor/tensor/tensor.h"

namespace athanor::kernels {

class PackedWeights {
 public:
  struct Entry {
    Tensor memory;
    bool ready = false;  // false: the caller of find() packs the weight and sets it
  };

  class Scope {
   public:
    Scope(PackedWeights& packed, Queue& queue) : packed_(packed), queue_(queue) {
      queue_.set_packed_weights(&packed_);
    }
    ~Scope() {
      queue_.set_packed_weights(nullptr);
      for (auto& [key, entry] : packed_.entries_) entry.ready = false;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PackedWeights& packed_;
    Queue& queue_;
  };

  explicit PackedWeights(Arena& arena) : arena_(arena) {}

  // The tensor's memory must not move while this object lives.
  void hold(const Tensor& weight) { held_[weight.raw()] = weight.numel(); }

  // The entry of a held matrix at `data` with `numel` elements: memory of `count` bf16 for its packing in this form.
  // Null if no such matrix is held.
  Entry* find(const void* data, int64_t numel, int form, int64_t count) {
    const auto held = held_.find(data);
    if (held == held_.end() || held->second != numel) return nullptr;
    Entry& entry = entries_[{data, form}];
    if (!entry.memory.defined()) entry.memory = empty(arena_, {count}, Dtype::bf16, Category::workspace);
    return &entry;
  }

 private:
  Arena& arena_;
  std::map<const void*, int64_t> held_;  // elements
  std::map<std::pair<const void*, int>, Entry> entries_;
};

}  // namespace athanor::kernels
