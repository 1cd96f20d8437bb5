// A group of one: every collective is the identity, and messages go from the rank to itself.
#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/comm/call.h"
#include "athanor/comm/group.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/arena.h"
#include "athanor/comm/shm/shared_regions.h"
#include "athanor/comm/tree.h"

namespace athanor::comm {

namespace {

// A message from the rank to itself; the first of its two calls waits for the second.
struct OwnMessage : Work::Impl {
  OwnMessage(Call message, void* place, std::mutex& guard)
      : call(std::move(message)), data(place), mutex(&guard) {}
  void wait() override {
    const std::lock_guard lock(*mutex);
    if (failure) failure->raise();
    check(met, "group of one: waits for message {}, which it has not matched with one of its own",
          call.text());
  }
  bool done() const override {
    const std::lock_guard lock(*mutex);
    return met || failure;
  }
  Call call;
  void* data;
  std::mutex* mutex;
  bool met = false;
  std::optional<GroupFailure> failure;
};

class SingleGroup final : public Group {
 public:
  explicit SingleGroup(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }

  Work start(Call call, Buffers buffers, Start) override {
    throw_if_broken();
    const Collective collective = call.collective;
    Work work = run(std::move(call), std::move(buffers));
    traffic_.add(collective, 0);
    return work;
  }

  Traffic traffic() const override { return traffic_.traffic(); }

  void throw_if_broken() override {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_->raise();
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    break_with({GroupFailure::Kind::aborted, 0, fmt::format("rank 0 aborted group '{}': {}", name_, reason)});
  }

 private:
  using Messages = std::deque<std::shared_ptr<OwnMessage>>;

  Work run(Call call, Buffers buffers) {
    switch (call.collective) {
      case Collective::barrier:
      case Collective::share:
      case Collective::all_reduce:
      case Collective::broadcast:
        return {};
      case Collective::all_reduce_tree:
        sum_tree(call, std::move(buffers.nodes), static_cast<float*>(buffers.out));
        return {};
      case Collective::all_to_all_v: {
        const std::string difference = compare_counts(buffers.send_counts, buffers.recv_counts, 1);
        check(difference.empty(), "group '{}', {}: {}", name_, call.text(), difference);
        move(buffers.in, buffers.out, buffers.send_counts[0], call.dtype);
        return {};
      }
      case Collective::send:  // its data are only read
        return post(std::move(call), const_cast<void*>(buffers.in), sends_, recvs_);
      case Collective::recv:
        return post(std::move(call), buffers.out, recvs_, sends_);
      default:
        move(buffers.in, buffers.out, call.count, call.dtype);
        return {};
    }
  }

  // Sums in blocks outside the node buffers, which belong to the caller.
  static void sum_tree(const Call& call, std::vector<TreeNode> nodes, float* result) {
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<LeafRange> ranges;
    ranges.reserve(nodes.size());
    for (const auto& node : nodes) ranges.emplace_back(node.first, node.last);
    const auto plan = plan_tree_sum(ranges, call.num_leaves);
    constexpr int64_t kBlock = 1024;
    std::vector<float> parts(nodes.size() * kBlock);
    const auto part = [&](size_t i) { return parts.data() + i * kBlock; };
    for (int64_t at = 0; at < call.count; at += kBlock) {
      const int64_t length = std::min(kBlock, call.count - at);
      for (size_t i = 0; i < nodes.size(); ++i) std::copy_n(nodes[i].data + at, length, part(i));
      for (const auto& add : plan)
        athanor::add(part(static_cast<size_t>(add.into)), part(static_cast<size_t>(add.into)),
                     part(static_cast<size_t>(add.from)), length);
      std::copy_n(part(0), length, result + at);
    }
  }

  static void move(const void* in, void* out, int64_t count, Dtype dtype) {
    if (count > 0) std::memmove(out, in, static_cast<size_t>(count) * size_of(dtype));
  }

  Work post(Call call, void* data, Messages& mine, Messages& others) {
    const std::lock_guard lock(mutex_);
    auto message = std::make_shared<OwnMessage>(std::move(call), data, mutex_);
    if (others.empty()) {
      mine.push_back(message);
      return Work(message);
    }
    const auto other = others.front();
    const OwnMessage &sent = &mine == &sends_ ? *message : *other,
                     &got = &mine == &sends_ ? *other : *message;
    if (sent.call.dtype != got.call.dtype || sent.call.count != got.call.count ||
        sent.call.name != got.call.name) {
      break_with({GroupFailure::Kind::mismatch, 0,
                  fmt::format("group '{}': a message to itself differs: rank 0 called {}; rank 0 called {}",
                              name_, sent.call.text(), got.call.text())});
      message->failure = failure_;
      return Work(message);
    }
    move(sent.data, got.data, sent.call.count, sent.call.dtype);
    message->met = other->met = true;
    others.pop_front();
    return {};
  }

  void break_with(GroupFailure failure) {
    if (!failure_) failure_ = std::move(failure);
    for (Messages* messages : {&sends_, &recvs_}) {
      for (const auto& message : *messages) message->failure = failure_;
      messages->clear();
    }
  }

  std::string name_;
  std::mutex mutex_;
  std::optional<GroupFailure> failure_;
  Messages sends_, recvs_;
  TrafficCounter traffic_;
};

}  // namespace

std::unique_ptr<Group> make_single_group(std::string name) {
  return std::make_unique<SingleGroup>(std::move(name));
}

}  // namespace athanor::comm
