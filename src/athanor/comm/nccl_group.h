// A Group of ranks with a device each: data in the devices' memory go from one to the other by NCCL, data in the
// host's memory, and all that ranks say to each other, by a group of any other transport.
//
// A call whose buffers lie on the device: every rank meets the others in the host's group, by a barrier that bears the
// call's text, so that what does not fit, who is late and who has died is found and named as in that group (law 8). Then
// the data move, in the order of a stream of the group's own that has waited for what the queue was given before
// the call. NCCL moves bytes only: slice r of the elements is rank r's, whose device adds the parts of all in the order of
// the ranks (comm/row_calls.h), so the sums have the bits of every other transport. All buffers of a call lie
// on the device, or none; the same on all ranks.
// While data move, whoever waits looks at the host's group, at NCCL's asynchronous errors and at the clock; a failure
// of any breaks the group on all ranks, and the communicator is aborted.
// Messages: each direction between two ranks has a communicator of its own, made when it is first used, so that they
// wait for nothing else. allocate_shared() gives memory of the rank's own device: there is none in common.
// traffic() counts the meetings as barriers. Thread rule: Group's; the queue's, too, as calls copy on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "athanor/comm/call_queue.h"
#include "athanor/comm/group.h"
#include "athanor/comm/nccl_link.h"
#include "athanor/comm/row_calls.h"
#include "athanor/comm/tree.h"
#include "athanor/tensor/tensor.h"

namespace athanor {

class NcclGroup final : public Group, private RowCalls {
 public:
  NcclGroup(std::unique_ptr<Group> host, const NcclDevice& device, const GroupOptions& options);
  ~NcclGroup() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const std::string& name() const override { return host_->name(); }

  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override;
  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override;
  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override;
  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override;
  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override;
  Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) override;
  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override;
  Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override;
  Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override;
  Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
               const std::string& name) override;
  Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) override;
  Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) override;
  void barrier(const std::string& name) override;
  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override;
  Traffic traffic() const override;
  void throw_if_broken() override { host_->throw_if_broken(); }
  void abort(const std::string& reason) override { host_->abort(reason); }

 private:
  struct Lane;  // of the messages of one direction, in nccl_lane.cpp
  class FromSelf;
  using Event = std::shared_ptr<CudaEvent>;
  struct ToSelf {
    Tensor data;
    Event copied;
  };

  // Whether a call's buffers lie on the device; those that are null are not looked at.
  bool is_of_device(const Call& call, std::initializer_list<const void*> buffers) const;
  Work start(const Call& call, bool buffers, std::initializer_list<const void*> where,
             std::function<Work(Group& host)> by_host, std::function<void()> by_device);
  Work start_on_host(const std::string& name, std::function<Work(Group& host)> step);
  // In the thread that carries out, when the ranks have met: `body` moves the data. `extra`: as direct_bytes'.
  void run(const Call& call, const CudaEvent& event, const std::function<void()>& body, int64_t extra = 0);
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
  // In nccl_lane.cpp.
  Lane& lane(int peer, bool sends);
  Work start_message(const Call& call, void* data, Work meeting);

  std::unique_ptr<Group> host_;
  NcclDevice device_;
  GroupOptions options_;
  std::function<void(const std::string& name, int64_t start_ns, int64_t end_ns)> on_done_;
  NcclLink link_;
  NcclLink self_link_;   // a stream for messages of the rank to itself
  NcclLink::Look look_;  // of the call in progress
  Tensor staging_;
  TrafficCounter traffic_;
  std::mutex self_mutex_;
  std::map<uint64_t, ToSelf> to_self_;  // what this rank has sent itself and not received yet, by number
  uint64_t sent_to_self_ = 0, received_from_self_ = 0;
  std::map<std::pair<int, bool>, std::unique_ptr<Lane>> lanes_;  // by peer and whether this rank sends
  CallQueue queue_;
};

}  // namespace athanor
