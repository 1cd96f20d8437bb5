// Weights that several grains of a step multiply by, packed for that once and kept until their values change.
//
//   PackedWeights packed(arena);
//   for (const auto& param : params) packed.hold(param->value());
//   {
//     const PackedWeights::Scope scope(packed, queue);  // values stay as they are while it lives
//     ... forward and backward passes of all grains ...
//   }
//   ... update ...
//
// A product looks its second operand up here (by address) and packs it, in the form it needs, if it is the first of
// the scope to do so; results have the same bits as without. Costs 2 bytes a parameter and form (forward and backward
// pass: two) of workspace, taken at first use. Thread rule: that of the queue.
#pragma once

#include <map>
#include <utility>

#include "athanor/tensor/tensor.h"

namespace athanor {

class PackedWeights {
 public:
  struct Entry {
    Tensor memory;
    bool ready = false;  // else whoever asked fills it
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

  // The tensor's memory stays where it is as long as this lives.
  void hold(const Tensor& weight) { held_[weight.raw()] = weight.numel(); }

  // Memory for `count` bf16 that a form of the held matrix at `data` with `numel` elements is packed into; null if
  // none is held there.
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

}  // namespace athanor
