// Point-to-point messages of one rank of a SlotArena: send and recv of Group.
//
// Each ordered pair of ranks has a channel, a ring buffer in the arena. A message is its packed call (256 bytes), then
// its data, in as many portions as the ring has room for. The receiver compares the call with its own before it takes
// data. If the data lie in memory that both ranks can address, the ring carries only the call and the receiver copies
// the data directly. A send is done when the receiver has the whole message, so both ranks get the error of a wrong
// message.
//
// All pending messages proceed whenever a thread of this rank waits for one, else on a thread of their own, which the
// first message starts. Waiting threads poll for dead peers, lateness and timeouts.
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
#include "athanor/comm/shm/link.h"
#include "athanor/comm/shm/shared_regions.h"
#include "athanor/comm/traffic.h"

namespace athanor::comm::shm {

class SlotMail {
 public:
  // All three must outlive it. Of the link only functions that any thread may call are used.
  SlotMail(const SlotLink& link, const SharedRegions& regions, TrafficCounter& traffic);
  ~SlotMail();
  SlotMail(const SlotMail&) = delete;
  SlotMail& operator=(const SlotMail&) = delete;

  // call.root is the other rank; check_call() has passed.
  Work start(const Call& call, std::byte* data);
  void finish();  // waits until all started messages are done or the group is broken

 private:
  struct Message {
    Call call;
    std::byte* data = nullptr;
    uint64_t number = 0;  // among the messages of this pair in this direction
    size_t bytes = 0, moved = 0;
    bool has_header = false;            // the call is sent, or received and equal
    const std::byte* direct = nullptr;  // where the sender's data lies
    std::atomic<bool> done = false;
    std::optional<GroupFailure> error;  // written before `done`; each wait() throws it
    bool is_send() const { return call.collective == Collective::send; }
  };
  class Handle;
  struct Watch;  // one wait's clock
  // The messages with one other rank, in order; only the first of `sending` and of `receiving` may be under way.
  struct Peer {
    std::deque<std::shared_ptr<Message>> sending, untaken, receiving;
    uint64_t num_sent = 0, num_received = 0;
  };

  void wait(Message& message);
  void wait_and_tell(Message& message);  // GroupOptions::on_waited
  void run_thread();
  void start_thread();
  // All following functions need mutex_.
  bool pending() const;
  // In channel.cpp; they return whether any data moved.
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
  CopyAcross across_;  // copies into rings
  StepClock clock_;

  std::mutex mutex_;
  std::condition_variable work_;
  int waiters_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace athanor::comm::shm
