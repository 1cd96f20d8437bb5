// A Wire: messages between any two ranks of a world, and the news of what has failed. What a transport between
// hosts provides (comm/gloo.h, comm/mpi.h); comm/wire_group.h makes the collectives of it.
//
//   auto in = wire.recv(peer, channel, buffer, bytes), out = wire.send(peer, channel, data, bytes);
//   while (!in->wait()) { look at wire.failure(group) and the clock }        // 50 ms at most
//
// Both sides give the same number of bytes; messages of one (from, to, channel) arrive in order. A message's
// memory stays valid until it is done or destroyed; destroying it gives it up, and the memory is not touched any
// more. Nobody is waited for longer than a slice, so whoever waits can see the news: of a rank that died (by
// itself or through a lost connection) and of groups that a member has declared broken.
// A rank may send to itself. Thread rule: any thread; one message by one thread at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/comm/slot_arena.h"

namespace athanor {

class Wire {
 public:
  // Thrown by Message::wait() when the other side is gone.
  class ConnectionLost : public Recoverable {
   public:
    using Recoverable::Recoverable;
  };
  class Message {
   public:
    virtual ~Message() = default;
    virtual bool wait() = 0;  // for at most some 50 ms: whether it is done
  };
  static constexpr uint64_t kEveryGroup = 0;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  std::unique_ptr<Message> send(int to, uint64_t channel, const void* data, size_t size_bytes);
  std::unique_ptr<Message> recv(int from, uint64_t channel, void* data, size_t size_bytes);
  // A message that nobody here waits for: kept until it is done or the world ends.
  void send_last(int to, uint64_t channel, std::vector<std::byte> bytes);

  // Declares a group broken, here and on all ranks that can be reached. The first failure stays.
  void fail(uint64_t group, const GroupFailure& failure);
  std::optional<GroupFailure> failure(uint64_t group);
  struct Loss {
    int rank;
    std::string reason;
  };
  std::optional<Loss> first_lost(const std::vector<int>& among);  // of these ranks, who died first and why

 protected:
  // Between this rank and another.
  virtual std::unique_ptr<Message> start_send(int to, uint64_t channel, const void* data,
                                              size_t size_bytes) = 0;
  virtual std::unique_ptr<Message> start_recv(int from, uint64_t channel, void* data, size_t size_bytes) = 0;
  virtual void tell(uint64_t group, const GroupFailure& failure) = 0;  // all other ranks
  virtual void poll() {}                                               // takes in news that have come
  void heard(uint64_t group, const GroupFailure& failure);
  void heard_lost(int rank, const std::string& reason);
  void drop_last_messages();  // a transport calls this before its own parts go

 private:
  struct Last {
    std::vector<std::byte> bytes;
    std::unique_ptr<Message> message;
  };
  class ToSelf;
  // Of one channel: what this rank has sent itself and not taken yet, and how many it has taken and asked for.
  struct Mailbox {
    std::deque<std::vector<std::byte>> sent;
    uint64_t taken = 0, asked = 0;
  };
  std::mutex mutex_;
  std::condition_variable self_;
  std::map<uint64_t, Mailbox> mailboxes_;
  std::map<uint64_t, GroupFailure> failures_;
  std::vector<Loss> lost_;  // in the order of the news
  std::vector<Last> last_;
};

// A failure as the bytes that tell() may send, and back; nothing if they are no such thing.
std::vector<std::byte> pack_news(uint64_t group, const GroupFailure& failure);
struct News {
  uint64_t group;
  GroupFailure failure;
};
std::optional<News> unpack_news(const void* bytes, size_t size_bytes);

}  // namespace athanor
