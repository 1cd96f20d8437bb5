// Activations of blocks in a scratch file (autograd/activation_store.h): written while the next block computes, read
// ahead while the block above it goes backwards.
//
//   ActivationFile file(env, "runs/first", arena);
//   context.activations = &file;
//
// Beside what the passes themselves use, memory holds a copy of one block's activations in the forward pass and of two
// in the backward pass (category workspace). Errors: IoError, as disk_records.h. Thread rule: one thread.
#pragma once

#include <map>
#include <optional>

#include "athanor/autograd/activation_store.h"
#include "athanor/store/disk_records.h"

namespace athanor {

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
    Tensor copy;  // while it is on its way to or from the disk
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

}  // namespace athanor
