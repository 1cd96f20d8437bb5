// Records (records.h) of a device in pinned memory of the host: fetched ahead of use and stored behind it, while the
// device computes.
//
//   Arena host(*cpu_queue);                       // accounts for what lies there
//   HostRecords records(host);
//
// stream() has two buffers in the device's arena (category workspace), each for the largest item, which are used in
// turn: while one item is in use, the one before it is stored and the next one is fetched, on a stream of copies
// (tensor/copy_lane.h). The host waits for nothing: visit() submits, and so does stream(). On the null device nothing
// moves. Errors: Error on an arena whose memory is the host's own. Thread rule: as Records.
#pragma once

#include <memory>

#include "athanor/store/records.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor {

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
  std::unique_ptr<CopyLane> lane_;  // null on the null device; goes before the memory it copies to
};

}  // namespace athanor
