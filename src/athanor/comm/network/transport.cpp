#include "athanor/comm/network/transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace athanor::comm::network {

namespace {

struct NewsHead {
  uint64_t group;
  uint32_t kind, text_bytes;
  int32_t rank, unused;
};
constexpr size_t kMaxTextBytes = 2000;

}  // namespace

// A message of a rank to itself: copied at once, so the send is done; received in the order of the receives.
class Wire::ToSelf final : public Message {
 public:
  ToSelf() = default;  // for a send, which is done
  ToSelf(Wire& wire, uint64_t channel, uint64_t number, void* data, size_t size_bytes)
      : wire_(&wire), channel_(channel), number_(number), data_(data), size_bytes_(size_bytes) {}
  bool wait() override {
    if (wire_ == nullptr) return true;
    std::unique_lock lock(wire_->mutex_);
    Mailbox& box = wire_->mailboxes_[channel_];
    const auto here = [&] { return box.taken == number_ && !box.sent.empty(); };
    if (!wire_->self_.wait_for(lock, std::chrono::milliseconds(50), here)) return false;
    const auto& bytes = box.sent.front();
    std::memcpy(data_, bytes.data(), std::min(size_bytes_, bytes.size()));
    box.sent.pop_front();
    ++box.taken;
    wire_->self_.notify_all();
    wire_ = nullptr;
    return true;
  }

 private:
  Wire* wire_ = nullptr;
  uint64_t channel_ = 0, number_ = 0;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

std::unique_ptr<Wire::Message> Wire::send(int to, uint64_t channel, const void* data, size_t size_bytes) {
  if (to != rank()) return start_send(to, channel, data, size_bytes);
  const auto* bytes = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  mailboxes_[channel].sent.emplace_back(bytes, bytes + size_bytes);
  self_.notify_all();
  return std::make_unique<ToSelf>();
}

std::unique_ptr<Wire::Message> Wire::recv(int from, uint64_t channel, void* data, size_t size_bytes) {
  if (from != rank()) return start_recv(from, channel, data, size_bytes);
  const std::lock_guard lock(mutex_);
  return std::make_unique<ToSelf>(*this, channel, mailboxes_[channel].asked++, data, size_bytes);
}

void Wire::send_last(int to, uint64_t channel, std::vector<std::byte> bytes) {
  auto message = send(to, channel, bytes.data(), bytes.size());
  const std::lock_guard lock(mutex_);
  last_.push_back({std::move(bytes), std::move(message)});  // moving a vector leaves its bytes where they are
}

void Wire::drop_last_messages() {
  const std::lock_guard lock(mutex_);
  last_.clear();
}

void Wire::fail(uint64_t group, const GroupFailure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failures_.emplace(group, failure).second) return;  // the other ranks know the first failure already
  }
  tell(group, failure);
}

std::optional<GroupFailure> Wire::failure(uint64_t group) {
  poll();
  const std::lock_guard lock(mutex_);
  for (const uint64_t id : {group, kEveryGroup})
    if (const auto found = failures_.find(id); found != failures_.end()) return found->second;
  return std::nullopt;
}

std::optional<Wire::Loss> Wire::first_lost(const std::vector<int>& among) {
  poll();
  const std::lock_guard lock(mutex_);
  for (const Loss& loss : lost_)
    if (std::find(among.begin(), among.end(), loss.rank) != among.end()) return loss;
  return std::nullopt;
}

void Wire::heard(uint64_t group, const GroupFailure& failure) {
  const std::lock_guard lock(mutex_);
  failures_.emplace(group, failure);
}

void Wire::heard_lost(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  lost_.push_back({rank, reason});
}

std::vector<std::byte> pack_news(uint64_t group, const GroupFailure& failure) {
  const size_t text_bytes = std::min(failure.text.size(), kMaxTextBytes);
  const NewsHead head{group, static_cast<uint32_t>(failure.kind), static_cast<uint32_t>(text_bytes),
                      failure.rank, 0};
  std::vector<std::byte> bytes(sizeof(head) + text_bytes);
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (text_bytes > 0) std::memcpy(bytes.data() + sizeof(head), failure.text.data(), text_bytes);
  return bytes;
}

std::optional<News> unpack_news(const void* bytes, size_t size_bytes) {
  NewsHead head;
  if (size_bytes < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes, sizeof(head));
  if (head.text_bytes > kMaxTextBytes || sizeof(head) + head.text_bytes > size_bytes) return std::nullopt;
  News news{head.group, {static_cast<GroupFailure::Kind>(head.kind), head.rank, {}}};
  news.failure.text.assign(static_cast<const char*>(bytes) + sizeof(head), head.text_bytes);
  return news;
}

}  // namespace athanor::comm::network
