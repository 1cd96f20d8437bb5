// A Group over a network transport (Wire): collectives between ranks without shared memory.
//
// Sums are formed by owners: slice r of the elements is rank r's. All ranks send it their parts of the slice; it adds
// them in the order of the ranks (all_reduce_tree: of the tree) and sends the sum to all. So every rank has the same
// bits, those of the transports within a host. An all_reduce sends 2 (n-1)/n S bytes per rank, as a ring does; but a
// ring would add each slice in another order. docs/collectives.md has the bytes of every call.
// Memory: parts to be added are received in pieces, into a buffer of at most twice max(slot_bytes, 64 KiB (n-1)).
// share() only compares the call, since there is no shared memory.
// Errors and thread rule: Group's.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/comm/call_queue.h"
#include "athanor/comm/group.h"
#include "athanor/comm/network/network_link.h"
#include "athanor/comm/network/row_calls.h"

namespace athanor::comm::network {

class WireGroup final : public Group, private RowCalls {
 public:
  // Arguments as WireLink's. `alive` is released when the group is destroyed.
  WireGroup(std::shared_ptr<Wire> wire, std::vector<int> members, const WireGroupIds& ids,
            GroupOptions options, std::shared_ptr<void> alive = nullptr);
  ~WireGroup() override;

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  const std::string& name() const override { return link_.options().name; }

  Work start(Call call, Buffers buffers, Start how) override;
  Traffic traffic() const override;
  void throw_if_broken() override { link_.look_for_losses(); }
  void abort(const std::string& reason) override;

 private:
  class Message;                                                 // in network_pair.cpp
  Work start_message(const Call& call, const Buffers& buffers);  // in network_pair.cpp
  void run(const Call& call, const Buffers& buffers);
  // In network_collectives.cpp, within a call.
  void reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) override;
  void gather_rows(std::span<const OutRow> rows, size_t element) override;
  void exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) override;
  void copy_own(void* to, const void* from, size_t size_bytes) override;
  void check_counts_of_all(std::span<const int64_t> send_counts, std::span<const int64_t> recv_counts);
  // In network_tree.cpp.
  void run_all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count);

  std::shared_ptr<void> alive_;
  WireLink link_;
  uint64_t data_channel_;
  std::vector<std::byte> staging_;
  std::vector<uint64_t> sent_to_, received_from_;  // by peer: number of messages of send() and recv()
  CallQueue queue_;
};

}  // namespace athanor::comm::network
