// Activation offload to disk: a block's activations (autograd/activation_store.h) in a scratch file. They are written
// while the next block computes, and read ahead while the backward pass is still in the block above.
//
//   ActivationFile file(env, "runs/first", arena);
//   context.activations = &file;
//
// Extra memory (category workspace): a copy of one block's activations in the forward pass, of two in the backward
// pass. Errors: IoError, as store/disk_records.h. Thread rule: one thread.
#pragma once

#include <map>
#include <optional>

#include "athanor/autograd/activation_store.h"
#include "athanor/store/disk_records.h"

namespace athanor::engine {

class ActivationFile final : public ActivationStore {
 public:
  ActivationFile(Env& env, const std::string& folder, Arena& arena);
  ~ActivationFile() override;

  int64_t put(std::span<const std::shared_ptr<Storage>> storages) override;
  void get(int64_t ticket) override;
  void drop(int64_t ticket) noexcept override;

  const DiskRecords& records() const { return records_; }

 private:
  struct Block {
    std::vector<std::weak_ptr<Storage>> storages;
    std::vector<uint64_t> sizes;
    int record;
    Tensor copy;  // the buffer of a transfer that is under way
  };
  int take_record(uint64_t size_bytes);
  void finish_write();
  void start_read(Block& block);

  Arena& arena_;
  DiskRecords records_;
  std::map<int64_t, Block> blocks_;
  std::multimap<uint64_t, int> free_;  // records, by size
  std::optional<int64_t> writing_;     // the block that is being written
  int64_t next_ticket_ = 0;
};

}  // namespace athanor::engine
