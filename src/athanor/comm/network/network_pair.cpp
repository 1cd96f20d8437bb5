// send() and recv() of WireGroup. Each is two messages: a header on a channel of the group, and the data on a channel
// derived from dtype, count, name and the world's generation. So data reach only a receive with the same, while the
// headers tell both ranks about a mismatch. All four messages are started at once and proceed in the background.
#include "athanor/base/check.h"
#include "athanor/comm/network/network_group.h"

namespace athanor::comm::network {

class WireGroup::Message final : public Work::Impl {
 public:
  // `peer`: the other rank; `call`: what this rank does.
  Message(WireLink& link, const Call& call, int peer, uint64_t number)
      : link_(link), call_(call), peer_(peer), mine_(link.id(), number, call, 0, link.options().generation) {}
  ~Message() override {
    try {
      wait();
    } catch (const Failure&) {  // a destructor cannot throw; the group's next call throws it again
    }
  }

  void start_send(const void* data) {
    add(link_.send(peer_, link_.channel("messages"), &mine_, sizeof(mine_)));
    if (call_.count > 0) add(link_.send(peer_, data_channel(), data, size_bytes()));
  }
  void start_recv(void* data) {
    add(link_.recv(peer_, link_.channel("messages"), &theirs_, sizeof(theirs_)));
    if (call_.count > 0) add(link_.recv(peer_, data_channel(), data, size_bytes()));
  }

  void wait() override {
    if (done_) return;
    done_ = true;  // also if it fails: a failed message is not waited for again
    const WireLink::Waiting waiting = {
        [this] { return fmt::format("{}, {}", link_.options().text(), call_.text()); },
        [](int) { return std::string("has not come to it"); }, link_.options().late_ms * 1'000'000};
    for (auto& one : pending_) {
      link_.await(one, waiting);
      if (call_.collective == Collective::recv && &one == &pending_.front()) compare();
    }
    pending_.clear();
    if (call_.collective == Collective::send)
      link_.traffic().add(Collective::send, peer_ == link_.rank() ? 0 : static_cast<int64_t>(size_bytes()));
    if (call_.collective == Collective::recv) link_.traffic().add(Collective::recv, 0);
  }
  bool done() const override { return done_; }

 private:
  void add(std::unique_ptr<Wire::Message> message) {
    pending_.emplace_back();
    pending_.back().push_back({std::move(message), peer_});
  }
  size_t size_bytes() const { return static_cast<size_t>(call_.count) * size_of(call_.dtype); }
  uint64_t data_channel() const {
    return link_.channel(fmt::format("{}[{}] {} of generation {}", athanor::name_of(call_.dtype), call_.count,
                                     call_.name, mine_.generation));
  }
  void compare() {
    link_.check_generation(theirs_, peer_);
    const Call sent = theirs_.call();
    if (theirs_.group == mine_.group && theirs_.sequence == mine_.sequence && sent.dtype == call_.dtype &&
        sent.count == call_.count && theirs_.name_hash == mine_.name_hash)
      return;
    link_.fail(GroupFailure::Kind::mismatch, link_.rank(),
               fmt::format("{}: message {} from rank {} to rank {} does not fit: rank {} called {}; "
                           "rank {} called {}",
                           link_.options().text(), mine_.sequence, peer_, link_.rank(), peer_, sent.text(),
                           link_.rank(), call_.text()));
  }

  WireLink& link_;
  Call call_;
  int peer_;
  CallHeader mine_, theirs_;
  std::vector<std::vector<WireLink::Pending>> pending_;  // header and data
  bool done_ = false;
};

Work WireGroup::start_message(const Call& call, const Buffers& buffers) {
  link_.throw_if_broken();
  const bool sends = call.collective == Collective::send;
  auto& count = (sends ? sent_to_ : received_from_)[static_cast<size_t>(call.root)];
  auto message = std::make_shared<Message>(link_, call, call.root, count++);
  if (sends)
    message->start_send(buffers.in);
  else
    message->start_recv(buffers.out);
  return Work(std::move(message));
}

}  // namespace athanor::comm::network
