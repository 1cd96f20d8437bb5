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

  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override {
    enter({Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr);
    return {};
  }

  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override {
    bool buffers = result != nullptr;
    for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
    enter({Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name}, buffers);
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<LeafRange> ranges;
    ranges.reserve(nodes.size());
    for (const auto& node : nodes) ranges.emplace_back(node.first, node.last);
    const auto plan = plan_tree_sum(ranges, num_leaves);
    // Sums in blocks outside the node buffers, which belong to the caller.
    constexpr int64_t kBlock = 1024;
    std::vector<float> parts(nodes.size() * kBlock);
    const auto part = [&](size_t i) { return parts.data() + i * kBlock; };
    for (int64_t at = 0; at < count; at += kBlock) {
      const int64_t length = std::min(kBlock, count - at);
      for (size_t i = 0; i < nodes.size(); ++i) std::copy_n(nodes[i].data + at, length, part(i));
      for (const auto& add : plan)
        athanor::add(part(static_cast<size_t>(add.into)), part(static_cast<size_t>(add.into)),
                     part(static_cast<size_t>(add.from)), length);
      std::copy_n(part(0), length, result + at);
    }
    return {};
  }

  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return copy({Collective::all_gather, dtype, -1, count, 0, name}, in, out);
  }

  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override {
    return copy({Collective::reduce_scatter, dtype, -1, count, 0, name}, in, out);
  }

  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return copy({Collective::all_to_all, dtype, -1, count, 0, name}, in, out);
  }

  Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) override {
    const Call call{Collective::all_to_all_v, dtype, -1, 0, 0, name};
    const int64_t count = check_counts(call, send_counts, 1, in != nullptr);
    check_counts(call, recv_counts, 1, out != nullptr);
    const std::string difference = compare_counts(send_counts, recv_counts, 1);
    check(difference.empty(), "group '{}', {}: {}", name_, call.text(), difference);
    enter(call, true);
    move(in, out, count, dtype);
    return {};
  }

  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override {
    enter({Collective::broadcast, dtype, root, count, 0, name}, data != nullptr);
    return {};
  }

  Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return copy({Collective::reduce, dtype, root, count, 0, name}, in, out);
  }

  Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return copy({Collective::gather, dtype, root, count, 0, name}, in, out);
  }

  Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
               const std::string& name) override {
    return copy({Collective::scatter, dtype, root, count, 0, name}, in, out);
  }

  void barrier(const std::string& name) override {
    enter({Collective::barrier, Dtype::u8, -1, 0, 0, name}, true);
  }

  Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) override {
    // The data of a send are only read.
    return post({Collective::send, dtype, to, count, 0, name}, const_cast<void*>(data), sends_, recvs_);
  }

  Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) override {
    return post({Collective::recv, dtype, from, count, 0, name}, data, recvs_, sends_);
  }

  Traffic traffic() const override { return traffic_.traffic(); }

  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override {
    enter({Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name}, true);
    return map_shared_memory(size_bytes);
  }

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

  void enter(const Call& call, bool buffers) {
    check_call(call, 1, buffers);
    const std::lock_guard lock(mutex_);
    if (failure_) failure_->raise();
    traffic_.add(call.collective, 0);
  }

  Work copy(const Call& call, const void* in, void* out) {
    enter(call, in != nullptr && out != nullptr);
    move(in, out, call.count, call.dtype);
    return {};
  }

  static void move(const void* in, void* out, int64_t count, Dtype dtype) {
    if (count > 0) std::memmove(out, in, static_cast<size_t>(count) * size_of(dtype));
  }

  Work post(Call call, void* data, Messages& mine, Messages& others) {
    enter(call, data != nullptr);
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
