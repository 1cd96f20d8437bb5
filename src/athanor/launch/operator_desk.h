// Where operators of a run (`athanor ctl`) ask: accepts their connections at a socket of its own, reads one request of each,
// and gives the answer.
//
//   OperatorDesk desk({.runtime_folder = xdg_runtime_dir});
//   desk.add_polled(polled);                                             // poll these
//   for (OperatorDesk::Request& request : desk.take()) desk.answer(request.from, Done{"as you wish"});
//
// Connections of other users, of those who are over kMostOperators, and what nobody understands, are refused without a
// request. Whoever goes before the answer gets none. Errors: IoError with the system's reason. Thread rule: one thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/control/listener.h"
#include "athanor/control/operator_messages.h"

namespace athanor::launch {

constexpr size_t kMostOperators = 64;

struct WaitingOperator {    // for an answer
  int64_t from = -1;        // nobody
  int64_t generation = -1;  // for something in a later one
};

class OperatorDesk {
 public:
  explicit OperatorDesk(const control::ListenerOptions& options) : listener_(options) {}
  OperatorDesk(control::Descriptor socket, const std::string& path) : listener_(std::move(socket), path) {}

  const std::string& path() const { return listener_.path(); }
  int socket() const { return listener_.fd(); }
  void add_polled(std::vector<pollfd>& polled) const;

  struct Request {
    int64_t from;  // for answer()
    control::OperatorRequest what;
  };
  std::vector<Request> take();
  // Any answer but Working ends the connection.
  void answer(int64_t to, const control::OperatorAnswer& answer);

 private:
  struct Operator {
    control::PacketChannel channel;
    bool has_asked = false;
  };
  control::Listener listener_;
  int64_t num_seen_ = 0;
  std::map<int64_t, Operator> operators_;
};

}  // namespace athanor::launch
