// The messages of one rank of a SlotArena: send and recv of Group.
//
// Each ordered pair of ranks has a channel, a ring of bytes in the arena: for every message its call, packed (256
// bytes), then its data in as many portions as the ring has room for. The receiver compares the call with its own
// before it takes any data. A message whose data lies in memory that both can address is only its call; the
// receiver copies the data from where it lies. A send is done when the receiver has taken the whole message, so
// what is wrong with a message is told to both.
//
// Everything that is pending moves on whenever anybody of this rank waits for a message, and by a thread of its own
// otherwise (started with the first message). Deaths, lateness and timeouts are looked for by those who wait.
// Thread rule: send and recv by one thread, waits by any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "athanor/comm/copy_across.h"
#include "athanor/comm/group.h"
#include "athanor/comm/shared_regions.h"
#include "athanor/comm/slot_link.h"
#include "athanor/comm/traffic.h"

namespace athanor {

class SlotMail {
 public:
  // The three must outlive it; of the link only what any thread may call is used.
  SlotMail(const SlotLink& link, const SharedRegions& regions, TrafficCounter& traffic);
  ~SlotMail();
  SlotMail(const SlotMail&) = delete;
  SlotMail& operator=(const SlotMail&) = delete;

  // call.root is the other rank; the call has been checked.
  Work start(const Call& call, std::byte* data);
  void finish();  // waits until all that was started is done or the group is broken

 private:
  struct Message {
    Call call;
    std::byte* data = nullptr;
    uint64_t number = 0;  // among those of this pair in this direction
    size_t bytes = 0, moved = 0;
    bool has_header = false;            // sent, or received and found right
    const std::byte* direct = nullptr;  // where the sender's data lies
    std::atomic<bool> done = false;
    std::optional<GroupFailure> error;  // written before done; thrown anew by each who waits
    bool is_send() const { return call.collective == Collective::send; }
  };
  class Handle;
  struct Watch;  // one wait's clock
  // The messages with one other rank, in order; the first of `sending` and `receiving` may be under way.
  struct Peer {
    std::deque<std::shared_ptr<Message>> sending, untaken, receiving;
    uint64_t num_sent = 0, num_received = 0;
  };

  void wait(Message& message);
  void run_thread();
  void start_thread();
  // The rest with mutex_ held.
  bool pending() const;
  // In slot_channel.cpp; they return whether any data moved.
  bool progress();
  bool push(int rank, Peer& peer);
  bool pull(int rank, Peer& peer);
  bool collect_taken(int rank, Peer& peer);
  void complete(Message& message);
  void fail_all(const GroupFailure& failure);
  void refuse(const Message& message, const Call& sent);
  void look_around(Message& message, Watch& watch, std::unique_lock<std::mutex>& lock);
  std::string place(const Message& message) const;

  const SlotLink& link_;
  const SlotArena arena_;
  const SharedRegions& regions_;
  TrafficCounter& traffic_;
  std::vector<Peer> peers_;
  CopyAcross across_;  // into rings
  StepClock clock_;

  std::mutex mutex_;
  std::condition_variable work_;
  int waiters_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace athanor
