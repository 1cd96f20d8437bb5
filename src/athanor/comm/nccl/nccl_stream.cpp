// send() and recv() of NcclGroup. Each message is announced by an empty message of the host group, which compares the
// two calls; then the data move. A message of a rank to itself is a copy on the device.
#include "athanor/comm/nccl/nccl_stream.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::nccl {

namespace {

// The text that sender and receiver compare.
std::string announcement(const Call& call) {
  return fmt::format("{}[{}] {}, on devices", name_of(call.dtype), call.count, call.name);
}

}  // namespace

NcclGroup::Lane::Lane(NcclGroup& group, int peer, bool sends)
    : link(group.device_, sends ? 0 : 1, 2),
      queue(
          group.options_,
          [this, &group](const std::exception& error) { return group.failure_of(error, link); },
          [this](Queue& waiting) { link.let_wait(waiting); }) {
  const std::string name = "the id of NCCL's communicator for messages";
  if (sends) id = NcclLink::make_id(group.device_.nccl);
  id_under_way = sends ? group.host_->send(id.data(), std::ssize(id), Dtype::u8, peer, name)
                       : group.host_->recv(id.data(), std::ssize(id), Dtype::u8, peer, name);
}

NcclGroup::Lane& NcclGroup::lane(int peer, bool sends) {
  auto& lane = lanes_[{peer, sends}];
  if (!lane) lane = std::make_unique<Lane>(*this, peer, sends);
  return *lane;
}

// The receive of a message from the rank to itself. wait() runs it, since the send may be started after the receive.
class NcclGroup::FromSelf final : public Work::Impl {
 public:
  FromSelf(NcclGroup& group, const Call& call, void* data, Work meeting, Event event)
      : group_(group),
        call_(call),
        data_(data),
        meeting_(std::move(meeting)),
        event_(std::move(event)),
        number_(group.received_from_self_++) {}
  ~FromSelf() override {
    try {
      wait();
    } catch (const Failure&) {  // a destructor cannot throw
    }
  }
  void wait() override {
    if (std::exchange(done_, true)) return;
    meeting_.wait();
    const std::lock_guard lock(group_.self_mutex_);
    const auto sent = group_.to_self_.find(number_);
    NcclLink& link = group_.self_link_;
    link.wait_for(*event_);
    link.wait_for(*sent->second.copied);
    link.copy(data_, sent->second.data.raw(), sent->second.data.size_bytes());
    link.mark();
    link.finish(group_.look_out(group_.place(call_)));
    group_.to_self_.erase(sent);
    group_.traffic_.add(Collective::recv, 0);
  }
  bool done() const override { return done_; }

 private:
  NcclGroup& group_;
  Call call_;
  void* data_;
  Work meeting_;
  Event event_;
  uint64_t number_;
  bool done_ = false;
};

// `meeting`: the announcement on the host group.
Work NcclGroup::start_message(const Call& call, void* data, Work meeting) {
  const bool sends = call.collective == Collective::send;
  Lane& lane = this->lane(call.root, sends);
  const auto event = std::make_shared<CudaEvent>(device_.queue);
  const auto met = std::make_shared<Work>(std::move(meeting));
  return lane.queue.start(call.name, [=, this, &lane] {
    const uint64_t size_bytes = static_cast<uint64_t>(call.count) * size_of(call.dtype);
    const NcclLink::Look look = look_out(place(call));
    met->wait();
    try {
      lane.link.wait_for(*event);
      lane.id_under_way.wait();
      if (!lane.link.is_open()) lane.link.open(lane.id, look);
      lane.link.transfer({{sends, sends ? 1 : 0, data, size_bytes}}, look);
      lane.link.mark();
      lane.queue.on_stream();
      lane.link.finish(look);
    } catch (const NcclError& error) {
      throw NcclError(fmt::format("{}: {}", place(call), error.what()));
    }
    traffic_.add(call.collective, direct_bytes(call, {}, rank(), size()));
  });
}

Work NcclGroup::start_message(const Call& call, const Buffers& buffers, Start how) {
  if (!is_of_device(call, buffers)) return host_->start(call, buffers, how);
  const int peer = call.root;
  const bool sends = call.collective == Collective::send;
  const auto announce = [&]() -> Work {
    return sends ? host_->send(nullptr, 0, call.dtype, peer, announcement(call))
                 : host_->recv(nullptr, 0, call.dtype, peer, announcement(call));
  };
  if (peer != rank()) {
    lane(peer, sends);  // before the announcement: sends the id of a new communicator
    // What is sent is only read.
    return start_message(call, sends ? const_cast<void*>(buffers.in) : buffers.out, announce());
  }
  if (!sends)
    return Work(std::make_shared<FromSelf>(*this, call, buffers.out, announce(),
                                           std::make_shared<CudaEvent>(device_.queue)));
  Tensor copied = empty(device_.arena, {call.count}, call.dtype, Category::communication);
  device_.queue.copy(copied.raw(), buffers.in, copied.size_bytes());
  const std::lock_guard lock(self_mutex_);
  to_self_[sent_to_self_++] = {std::move(copied), std::make_shared<CudaEvent>(device_.queue)};
  return announce();
}

}  // namespace athanor::comm::nccl
