// A Group of ranks with a GPU each: data in device memory move by NCCL. Data in host memory, and all coordination, use
// a group of another transport, the host group.
//
// A call on device memory: first all ranks meet in a barrier of the host group whose name is the call's text. So
// mismatches, late ranks and deaths are detected and named by the host group (law 8). Then data move, on a stream of
// the group's own, after everything that was submitted to the rank's CUDA queue before the call. NCCL only moves bytes:
// rank r owns slice r of the elements, and its device adds the parts of all ranks in rank order
// (comm/network/row_calls.h), so the sums have the bits of every other transport. All buffers of a call are on the
// device or none, the same on all ranks. A waiting thread polls the host group, NCCL's asynchronous errors and the
// clock. Any failure breaks the group on all ranks and then aborts the communicator. A queue that waits for the data
// (Work::wait(Queue&)) goes on at that abort, when every call of the group fails already.
// Point-to-point messages: each direction between two ranks has a communicator and stream of its own (nccl_stream.h),
// made at the first message, so messages wait for nothing else. Memory of a device is not shared. traffic() counts the
// meetings as barriers.
// Thread rule: Group's, and the CUDA queue's, since calls copy on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "athanor/comm/call_queue.h"
#include "athanor/comm/group.h"
#include "athanor/comm/nccl/nccl_link.h"
#include "athanor/comm/network/row_calls.h"
#include "athanor/comm/tree.h"
#include "athanor/tensor/tensor.h"

namespace athanor::comm::nccl {

class NcclGroup final : public Group, private RowCalls {
 public:
  NcclGroup(std::unique_ptr<Group> host, const NcclDevice& device, const GroupOptions& options);
  ~NcclGroup() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const std::string& name() const override { return host_->name(); }

  Work start(Call call, Buffers buffers, Start how) override;
  Traffic traffic() const override;
  void throw_if_broken() override { host_->throw_if_broken(); }
  void abort(const std::string& reason) override { host_->abort(reason); }

 private:
  struct Lane;  // the messages of one direction, in nccl_stream.cpp
  class FromSelf;
  using Event = std::shared_ptr<CudaEvent>;
  struct ToSelf {
    Tensor data;
    Event copied;
  };

  // Whether the buffers that this rank uses are on the device; false if it uses none.
  bool is_of_device(const Call& call, const Buffers& buffers) const;
  // What runs on the queue.
  void run(const Call& call, const Buffers& buffers, const CudaEvent& event);
  void run_all_to_all_v(const Call& call, const Buffers& buffers, const CudaEvent& event);
  // After the meeting of the ranks: `body` moves the data.
  void move(const Call& call, const Buffers& buffers, const CudaEvent& event,
            const std::function<void()>& body);
  void meet(const Call& call);
  std::string place(const Call& call) const;
  NcclLink::Look look_out(std::string what) const;
  GroupFailure failure_of(const std::exception& error, NcclLink& link);

  // In nccl_rows.cpp.
  void reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) override;
  void gather_rows(std::span<const OutRow> rows, size_t element) override;
  void exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) override;
  void copy_own(void* to, const void* from, size_t size_bytes) override;
  std::byte* staging(size_t size_bytes);
  SharedTree share_nodes(const std::vector<TreeNode>& nodes, int64_t num_leaves, const std::string& place);
  void run_all_reduce_tree(const SharedTree& tree, const std::vector<TreeNode>& nodes, float* result,
                           int64_t count);
  // In nccl_stream.cpp.
  Lane& lane(int peer, bool sends);
  Work start_message(const Call& call, const Buffers& buffers, Start how);
  Work start_message(const Call& call, void* data, Work meeting);

  std::unique_ptr<Group> host_;
  NcclDevice device_;
  GroupOptions options_;
  std::function<void(const std::string& name, int64_t start_ns, int64_t end_ns)> on_done_;
  NcclLink link_;
  NcclLink self_link_;   // for messages of the rank to itself
  NcclLink::Look look_;  // of the call in progress
  Tensor staging_;
  TrafficCounter traffic_;
  std::mutex self_mutex_;
  std::map<uint64_t, ToSelf> to_self_;  // by number: sent to itself and not received yet
  uint64_t sent_to_self_ = 0, received_from_self_ = 0;
  std::map<std::pair<int, bool>, std::unique_ptr<Lane>> lanes_;  // by peer and whether this rank sends
  CallQueue queue_;
};

}  // namespace athanor::comm::nccl
