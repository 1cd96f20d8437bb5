// A network transport (Wire): messages between any two ranks of a world, and news of failures. Implemented by Gloo and
// MPI (gloo/gloo.h, mpi/mpi.h); network_group.h builds the collectives on it.
//
//   auto in = wire.recv(peer, channel, buffer, bytes), out = wire.send(peer, channel, data, bytes);
//   while (!in->wait()) { check wire.failure(group) and the clock }        // wait() blocks for 50 ms at most
//
// Both sides give the same number of bytes; messages of one (from, to, channel) arrive in order. A message's memory
// must stay valid until it is done or destroyed; destroying it gives it up, and its memory is not used any more. wait()
// returns after a slice of time, so the waiting thread can see the news: ranks that died (reported, or by a lost
// connection), and groups that a member has declared broken. A rank may send to itself.
// Thread rule: any thread; one message by one thread at a time.
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
#include "athanor/comm/shm/arena.h"

namespace athanor::comm::network {

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
    virtual bool wait() = 0;  // blocks for about 50 ms at most; true: done
  };
  static constexpr uint64_t kEveryGroup = 0;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  std::unique_ptr<Message> send(int to, uint64_t channel, const void* data, size_t size_bytes);
  std::unique_ptr<Message> recv(int from, uint64_t channel, void* data, size_t size_bytes);
  // A message without wait(): kept until it is done or the world ends.
  void send_last(int to, uint64_t channel, std::vector<std::byte> bytes);

  // Declares a group broken, here and on all reachable ranks. The first failure stays.
  void fail(uint64_t group, const GroupFailure& failure);
  std::optional<GroupFailure> failure(uint64_t group);
  struct Loss {
    int rank;
    std::string reason;
  };
  std::optional<Loss> first_lost(const std::vector<int>& among);  // which of these ranks died first, and why

 protected:
  // Implemented by the transport; `to` and `from` are other ranks.
  virtual std::unique_ptr<Message> start_send(int to, uint64_t channel, const void* data,
                                              size_t size_bytes) = 0;
  virtual std::unique_ptr<Message> start_recv(int from, uint64_t channel, void* data, size_t size_bytes) = 0;
  virtual void tell(uint64_t group, const GroupFailure& failure) = 0;  // sends the news to all other ranks
  virtual void poll() {}                                               // receives news that have arrived
  // The transport calls these for received news.
  void heard(uint64_t group, const GroupFailure& failure);
  void heard_lost(int rank, const std::string& reason);
  void drop_last_messages();  // a transport's destructor calls this before it destroys its own parts

 private:
  struct Last {
    std::vector<std::byte> bytes;
    std::unique_ptr<Message> message;
  };
  class ToSelf;
  // Messages of this rank to itself on one channel: sent and not received yet; the numbers received and requested.
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

// A failure as bytes for tell(). unpack_news returns nothing for bytes that pack_news has not made.
std::vector<std::byte> pack_news(uint64_t group, const GroupFailure& failure);
struct News {
  uint64_t group;
  GroupFailure failure;
};
std::optional<News> unpack_news(const void* bytes, size_t size_bytes);

}  // namespace athanor::comm::network
