// Records (records.h) of a device in pinned host memory: offload to the host, with copies in ahead of use and copies
// out behind it, while the device computes.
//
//   Arena host(*cpu_queue);                       // accounts for the pinned memory
//   HostRecords records(host);
//
// stream() alternates between two buffers in the device's arena (category workspace), each of the size of the largest
// item: while one item is in use, the previous one is copied out and the next one copied in, on a copy stream
// (tensor/copy_lane.h). The host waits for nothing: visit() and stream() only submit work. On the null device nothing
// moves. Errors: Error on an arena whose memory is the host's own. Thread rule: as Records.
#pragma once

#include <memory>

#include "athanor/store/records.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor::store {

class HostRecords final : public Records {
 public:
  explicit HostRecords(Arena& host) : host_(host) {}

  int add(const std::string& name, uint64_t size_bytes) override;
  void allocate(Arena& arena, Category category) override;
  void stream(std::span<const Item> items, Access access, const Visit& visit) override;
  Tensor resident(int) const override { return {}; }

 private:
  struct Record {
    uint64_t size_bytes, offset;
  };
  const Record& record(int index) const { return records_.at(static_cast<size_t>(index)); }
  std::vector<Tensor> views(const std::shared_ptr<Storage>& buffer, const Item& item) const;

  Arena& host_;
  std::vector<Record> records_;
  uint64_t all_bytes_ = 0;
  Arena* arena_ = nullptr;
  std::shared_ptr<Storage> there_;
  std::unique_ptr<CopyLane> lane_;  // null on the null device; destroyed before the memory it copies to
};

}  // namespace athanor::store
