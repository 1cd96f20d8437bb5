// A worker's connection to the agent that started it.
//
//   AgentLink link({.path = control, .job = job, .worker = worker, .on_stop = [&](int signal) { request(signal); }});
//   std::optional<WorldOffer> offer = link.next(-1, "the start");          // waits for the other ranks; none: the end
//   auto world = open_shm_world(offer->segment.get(), offer->rank, offer->size, {.generation = offer->generation});
//   link.begun({.generation = offer->generation, .step = 0, .run_folder = "runs/first"});
//   ... the group breaks ...
//   offer = link.next(offer->generation, "rank 1 was lost");
//   link.farewell({.status = Status::finished});
//
// Connects and says Hello when it is made. A thread of its own, in which all signals are blocked, receives; the callbacks
// run on it. If the connection breaks, it connects again: another agent may have taken over the socket, and is told what the one
// before it has not taken. Where nobody listens any more, or the agent has had no pulse (control/pulse.h) for silence_ms, all
// is over: on_lost is told once why, next() returns none, and what is said goes nowhere; a run should then save and end.
// No call but next() ever waits for an agent. Errors: IoError if nobody listens at `path`; Error if it is another user's.
// Thread rule: any thread; next() by one at a time, not from a callback.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "athanor/control/messages.h"
#include "athanor/control/packet_channel.h"
#include "athanor/control/pulse.h"

namespace athanor::control {

struct AgentLinkOptions {
  std::string path{}, job{};  // of the environment (launch/environment.h)
  int worker = 0;
  std::function<void(int signal)> on_stop = [](int) {};
  std::function<void(const std::string& why)> on_lost = [](const std::string&) {};
  std::function<void()> on_thread = [] {};  // called first by the thread
  // How this rank is measured, in next() by its thread, when the agent asks for that; the round is filled in.
  std::function<WarmedUp()> warm_up = [] { return WarmedUp{}; };
  int silence_ms = 10'000;  // counted while this process runs, not while it is stopped
};

// Meet with its descriptors.
struct WorldOffer {
  int64_t generation = 0;
  int rank = 0, size = 1;
  std::string why;
  Descriptor segment, slots;  // the generation's shared memory; this rank's memory for its snapshots, empty
  // Slots of the last generation that had begun, which this process has to give to the others.
  struct Left {
    int rank;  // in that generation
    Descriptor slots;
  };
  std::vector<Left> left;
  Order order;
};

class AgentLink {
 public:
  explicit AgentLink(AgentLinkOptions options);
  ~AgentLink();  // gives what was said for certain a second to go out
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // Says Ready, and waits for a world after `generation` (-1: the first), meanwhile warms up. None: there is no other one
  // (ended_because()).
  std::optional<WorldOffer> next(int64_t generation, const std::string& why);
  void begun(const Begun& begun) { say(begun, Delivery::certain); }
  void saved(const Saved& saved) { say(saved, Delivery::certain); }
  void progress(const Progress& progress) { say(progress, Delivery::droppable); }
  void does(const Progress& progress) { say(progress, Delivery::certain); }  // another kind than before
  void event(const Event& event) { say(event, Delivery::certain); }
  void farewell(const Farewell& farewell) { say(farewell, Delivery::certain); }
  // `files`: the descriptor that goes with it, which stays the caller's.
  void persist(const Persist& persist, int files);
  // What became of it, each once, in order. None: nothing new; after a wait: the connection is lost.
  std::optional<Persisted> take_persisted(bool wait = false);

  std::string ended_because() const;  // of End, or why the connection was lost; "": neither
  uint64_t num_shed() const;          // progress that the agent did not take in time

 private:
  struct Order {
    Persist persist;
    Descriptor files;
  };
  void say(const WorkerMessage& message, Delivery delivery);
  void send_order(const Order& order);
  void stay_connected();  // the thread
  bool receive_all();     // until the connection breaks; false: this process leaves
  bool connect_again();
  void take(Packet packet);
  void welcome(const Welcome& welcome);
  bool may_leave() const;
  void listen_to_pulse(int64_t elapsed_ns);
  void lose(const std::string& why);
  void give_up();

  AgentLinkOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  PacketChannel channel_;
  std::optional<WorldOffer> offer_;        // the newest that next() has not returned
  std::deque<Order> orders_;               // that no agent has answered: the next one is told again
  std::deque<Persisted> persisted_;        // that nobody has taken
  int64_t warm_up_ = -1, warmed_up_ = -1;  // the newest that was asked for, and done
  std::string ended_;
  std::deque<std::string> said_;  // for certain, the newest
  int64_t num_said_ = 0;
  bool holds_ = false;  // what is said, until the next agent tells what the one before it has taken
  int num_tries_ = 0;   // to connect, since an agent has welcomed this process
  uint64_t num_shed_ = 0;
  bool lost_ = false;
  std::exception_ptr failure_{};
  int64_t leave_at_ns_ = 0;          // not later; 0: it does not leave
  std::optional<PulseWatch> pulse_;  // of the agent, once it is known; of the thread
  Descriptor wake_;                  // an eventfd: there is something to send, or the end
  std::thread thread_;
};

}  // namespace athanor::control
