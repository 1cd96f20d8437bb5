// Activation offload: where a block's activations are kept between its forward and its backward pass.
//
//   Tape tape({.record = true, .activations = &store});    // a Model then wraps each block in these two:
//   tape.begin_block(x);
//   x = block(x);
//   tape.end_block(x);       // hands the tensors that the block's nodes saved to the store, except x
//
// The backward pass gets a block's values back before its first node needs them, at other addresses but with the same
// bytes. Errors: those of the store. Thread rule: that of the Tape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "athanor/autograd/selective_recompute.h"

namespace athanor::autograd {

// Smaller tensors stay in memory: transferring them would cost more than it saves.
constexpr uint64_t kLeastStoredBytes = 16384;

class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  // Takes over the bytes of the storages and releases their memory. Returns a handle (ticket).
  virtual int64_t put(std::span<const std::shared_ptr<Storage>> storages) = 0;
  // Gives the storages of a ticket memory and their bytes again. Storages destroyed in the meantime are skipped.
  virtual void get(int64_t ticket) = 0;
  virtual void drop(int64_t ticket) noexcept = 0;  // discards the bytes: get() will not be called
};

// The activations of one block in a store; restore() brings them back, the destructor drops them.
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

}  // namespace athanor::autograd
