// Where the activations of a block go between its forward and its backward pass, if not to memory (offload).
//
//   PassContext context{..., .activations = &store};       // a Model then wraps each block in these two:
//   tape.begin_block(x);
//   x = block(x);
//   tape.end_block(x);       // what the block's nodes saved is given to the store, all but x
//
// The backward pass takes a block's values back before the first of its nodes needs them; kernels then see the same
// bytes at other addresses. Thread rule: that of the Tape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "athanor/autograd/redo.h"

namespace athanor {

// Smaller tensors stay: a transfer of them would cost more than their memory is worth.
constexpr uint64_t kLeastStoredBytes = 16384;

class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  // Takes the bytes of these storages and releases them. Returns a ticket.
  virtual int64_t put(std::span<const std::shared_ptr<Storage>> storages) = 0;
  // Gives them memory and their bytes again; those that are gone meanwhile are skipped.
  virtual void get(int64_t ticket) = 0;
  virtual void drop(int64_t ticket) noexcept = 0;  // nobody will ask for them
};

// What a block has in a store.
class StoredBlock final : public Restorable {
 public:
  StoredBlock(ActivationStore& store, std::span<const std::shared_ptr<Storage>> storages)
      : store_(store), ticket_(store.put(storages)) {}
  ~StoredBlock() override {
    if (!restored_) store_.drop(ticket_);
  }
  StoredBlock(const StoredBlock&) = delete;
  StoredBlock& operator=(const StoredBlock&) = delete;
  void restore() override {
    if (restored_) return;
    restored_ = true;
    store_.get(ticket_);
  }

 private:
  ActivationStore& store_;
  int64_t ticket_;
  bool restored_ = false;
};

}  // namespace athanor
