// A Group over a SlotArena, for ranks as threads or processes of one host: a queue of started calls (call_queue.h), the
// collectives (collectives.cpp, slot_exchange.cpp, shm_tree.cpp, direct.cpp) and the messages (mailbox.h).
//
// Data move in pieces that fit a slot. For each piece a rank copies its data into its slot, sums one slice over all
// ranks, and copies the other slices out. A rank has two slots, so it can copy the next piece in while the others still
// read this one. A rank reads its own data from the user's buffer. If all ranks can address each other's buffers, the
// buffers are used directly, without slots (direct.cpp).
// Errors and thread rule: Group's.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/comm/call_queue.h"
#include "athanor/comm/copy_across.h"
#include "athanor/comm/exchange.h"
#include "athanor/comm/group.h"
#include "athanor/comm/shm/link.h"
#include "athanor/comm/shm/mailbox.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/shm/shared_regions.h"
#include "athanor/comm/traffic.h"
#include "athanor/comm/tree.h"

namespace athanor::comm::shm {

class SlotGroup final : public Group {
 public:
  // What a transport provides. `memory` keeps the arena's memory alive.
  struct Transport {
    SlotArena arena;
    std::shared_ptr<void> memory;
    SlotLink::Liveness death_of;
    RankMemory rank_memory;
    std::optional<Membership> membership = {};
  };
  SlotGroup(Transport transport, int rank, GroupOptions options);
  ~SlotGroup() override;

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  const std::string& name() const override { return link_.options().name; }

  Work start(Call call, Buffers buffers, Start how) override;
  Traffic traffic() const override { return traffic_.traffic(); }
  void throw_if_broken() override { link_.look_for_deaths(); }
  void abort(const std::string& reason) override;

 private:
  SharedPlace place_of(const Call& call, const Buffers& buffers) const;
  void run(const Call& call, const Buffers& buffers);
  void run_share(const Call& call, const std::shared_ptr<std::byte>& memory);
  GroupFailure failure_of(const std::exception& error);

  // In collectives.cpp; all run in the queue, one after the other.
  void run(const Call& call, const PieceSteps& steps);
  void run_pieces(const PieceSteps& steps, uint32_t in_event);
  int bring_in(const PieceSteps& steps, int64_t k);
  void bring(std::byte* slot, const std::byte* from, int64_t count, size_t element);
  void run_rows(
      const Call& call, const std::byte* in,
      const std::function<void(std::span<const void* const> rows, int64_t first, int64_t length)>& take);
  void run_all_reduce(const Call& call, std::byte* data);
  PieceSteps sliced_sum_steps(const Call& call, std::byte* data);
  PieceSteps flat_sum_steps(const Call& call, std::byte* data);
  void run_all_gather(const Call& call, const std::byte* in, std::byte* out);
  void run_reduce_scatter(const Call& call, const std::byte* in, std::byte* out);
  void run_broadcast(const Call& call, std::byte* data);
  void run_all_to_all(const Call& call, const std::byte* in, std::byte* out);
  void run_reduce(const Call& call, const std::byte* in, std::byte* out);

  // In slot_exchange.cpp. The steps refer to `rows`.
  PieceSteps exchange_steps(const Call& call, const Exchange& rows, const std::byte* in, std::byte* out);
  void keep_own_row(const Call& call, const Exchange& rows, const std::byte* in, std::byte* out) const;
  void run_exchange(const Call& call, const Exchange& rows, const std::byte* in, std::byte* out);
  Exchange exchange_counts(const Call& call, std::span<const int64_t> send_counts,
                           std::span<const int64_t> recv_counts);
  void run_all_to_all_v(const Call& call, std::span<const int64_t> send_counts,
                        std::span<const int64_t> recv_counts, const std::byte* in, std::byte* out);

  // In shm_tree.cpp.
  std::vector<TreePart> exchange_nodes(const Call& call, const std::vector<TreeNode>& nodes);
  void run_all_reduce_tree(const Call& call, const std::vector<TreeNode>& nodes, float* result);
  void sum_tree_in_slots(const Call& call, const std::vector<TreePart>& parts,
                         const std::vector<TreeAdd>& plan, const std::vector<TreeNode>& nodes, float* result);
  void sum_tree_directly(const Call& call, const std::vector<TreePart>& parts,
                         const std::vector<TreeAdd>& plan);

  // In direct.cpp.
  bool may_be_direct(int64_t count, Dtype dtype) const;
  bool all_can_address(const Call& call) const;
  std::vector<std::byte*> buffers_of_all() const;
  void share_work(int64_t count, size_t element,
                  const std::function<void(int64_t first, int64_t length)>& body);
  void reduce_directly(const Call& call);
  void copy_directly(const std::function<void(int rank, const std::byte* buffer)>& copy_from);

  std::shared_ptr<void> memory_;
  SlotLink link_;
  SharedRegions regions_;
  TrafficCounter traffic_;
  SlotMail mail_;
  CopyAcross across_;                    // copies into this rank's slots
  uint64_t pieces_begun_ = 0;            // its parity picks the slot, the same on all ranks
  std::array<uint32_t, 2> slot_free_{};  // the event at which all ranks have read the slot's last piece

  CallQueue queue_;
};

}  // namespace athanor::comm::shm
