// Hierarchical collectives: a Group made of a fast group within each host and a slow one between hosts. Any two groups
// work.
//
//   HierarchicalGroup group(std::move(host), std::move(across));     // host: ranks of this host; across: ranks that
//   group.all_reduce(...);                                           // have this one's number on their hosts
//   group.outer().traffic();                                         // what this rank sent between hosts
//
// Rank = outer rank * inner size + inner rank; every host has the same number of ranks. An all_reduce of S bytes is an
// inner reduce-scatter, an outer all-reduce of each rank's shard and an inner all-gather. So a host of n ranks sends 2
// (H-1)/H S between hosts, H the number of hosts, and not n 2 (nH-1)/(nH) S. Other calls also send as little as
// possible.
//
// Sums add the inner ranks in their order, then the hosts in theirs: the same bits on every rank and in every run. For
// f32 they differ from those of a group of one level (the reference is the same composition of two `thread` groups);
// bf16 is rounded once per level. all_reduce_tree has the bits of one level: each host first adds its complete nodes.
// send() and recv() use `direct`, a group of all ranks; without it they reach only ranks of the same host or number.
// share() registers memory with the ranks of the host.
// A failure of either level breaks both, on all ranks; the rank in a PeerLost is a rank of this group.
// Thread rule: Group's; the groups that it is made of have no other user.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "athanor/comm/call_queue.h"
#include "athanor/comm/group.h"

namespace athanor::comm::hierarchical {

class HierarchicalGroup final : public Group {
 public:
  HierarchicalGroup(std::unique_ptr<Group> inner, std::unique_ptr<Group> outer,
                    std::unique_ptr<Group> direct = nullptr, const GroupOptions& options = {});
  ~HierarchicalGroup() override;

  int rank() const override { return outer_->rank() * inner_->size() + inner_->rank(); }
  int size() const override { return outer_->size() * inner_->size(); }
  const std::string& name() const override { return name_; }
  const Group& inner() const { return *inner_; }
  const Group& outer() const { return *outer_; }

  Work start(Call call, Buffers buffers, Start how) override;
  Traffic traffic() const override;  // of all levels
  void throw_if_broken() override;
  void abort(const std::string& reason) override;

 private:
  struct Peer {  // the group that reaches a rank, and the rank's number in that group
    Group& group;
    int rank;
  };
  void run(const Call& call, const Buffers& buffers);
  // One step of a call, on the inner or outer level. In a PeerLost the rank becomes a rank of this group.
  void inside(const std::function<void(Group& inner)>& step);
  void across(const std::function<void(Group& outer)>& step);
  GroupFailure failure_of(const std::exception& error);
  void break_levels(const GroupFailure& failure);
  Peer peer(int rank, const std::string& name);
  Work start_message(const Call& call, Buffers buffers, Start how);

  // In hierarchical_calls.cpp and hierarchical_tree.cpp, within a call.
  void run_all_reduce(std::byte* data, int64_t count, Dtype dtype, const std::string& name);
  void run_all_gather(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                      const std::string& name);
  void run_reduce_scatter(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                          const std::string& name);
  void run_all_to_all(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                      const std::string& name);
  void run_all_to_all_v(const std::byte* in, const std::vector<int64_t>& send_counts, std::byte* out,
                        const std::vector<int64_t>& recv_counts, Dtype dtype, const std::string& name);
  void run_rooted(const Call& call, const std::byte* in, std::byte* out);
  void run_all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                           const std::string& name);

  std::unique_ptr<Group> inner_, outer_, direct_;
  std::string name_, text_;  // text_: with "group", for messages
  std::vector<std::byte> staging_;
  std::mutex mutex_;
  std::optional<GroupFailure> failure_;
  CallQueue queue_;
};

}  // namespace athanor::comm::hierarchical
