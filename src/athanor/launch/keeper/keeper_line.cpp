#include "athanor/launch/keeper/keeper_line.h"

#include <poll.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "athanor/base/check.h"
#include "athanor/base/error.h"

namespace athanor::launch::keeper {
namespace {

constexpr size_t kKeysAPacket = 100;
constexpr size_t kOfTakeUp = 4;

[[noreturn]] void fail_gone() {
  throw IoError("the launcher is gone", EPIPE);
}

RankGiven rank_of(const RankStarted& started, std::vector<Descriptor> descriptors) {
  if (!started.error.empty()) throw IoError(started.error, ECHILD);
  check(descriptors.size() == 1 || descriptors.size() == 2,
        "keeper: a rank came with {} descriptors, expected 1 or 2", descriptors.size());
  RankGiven rank{started, std::move(descriptors[0]), Descriptor()};
  if (descriptors.size() == 2) rank.errors = std::move(descriptors[1]);
  return rank;
}

}  // namespace

KeeperLine::KeeperLine(PacketChannel channel) : channel_(std::move(channel)) {
  for (bool all = false; !all;) {
    auto packet = next_packet();
    if (!packet) fail_gone();
    const KeeperMessage message = decode_keeper_message(packet->text);
    if (const auto* first = std::get_if<TakeUp>(&message)) {
      check(packet->descriptors.size() == kOfTakeUp,
            "keeper: 'take-up' came with {} descriptors, expected {}", packet->descriptors.size(), kOfTakeUp);
      given = *first;
      socket = std::move(packet->descriptors[0]);
      desk = std::move(packet->descriptors[1]);
      pulse = std::move(packet->descriptors[2]);
      notes = std::move(packet->descriptors[3]);
    } else if (const auto* started = std::get_if<RankStarted>(&message)) {
      ranks.push_back(rank_of(*started, std::move(packet->descriptors)));
    } else if (const auto* keys = std::get_if<Kept>(&message)) {
      check(packet->descriptors.size() == keys->keys.size(), "keeper: {} descriptors, expected {}",
            packet->descriptors.size(), keys->keys.size());
      for (size_t i = 0; i < keys->keys.size(); ++i)
        kept.insert_or_assign(keys->keys[i], std::move(packet->descriptors[i]));
    } else if (std::holds_alternative<AllIsGiven>(message)) {
      all = true;
    } else {
      waiting_.push_back(message);
    }
  }
  check(socket.get() >= 0, "keeper: nothing was to be taken up");
  for (const auto& [key, fd] : kept) held_[key] = -1;  // of another agent: to be given again, or forgotten
}

std::optional<Packet> KeeperLine::next_packet() {
  while (!channel_.closed()) {
    if (auto packet = channel_.receive()) return packet;
    if (!channel_.closed()) wait(-1);
  }
  return std::nullopt;
}

void KeeperLine::wait(int timeout_ms) const {
  pollfd polled{channel_.fd(), POLLIN, 0};
  poll(&polled, 1, timeout_ms);
}

// It is in the system's hands when this returns.
void KeeperLine::send(const std::string& text, const std::vector<int>& descriptors) {
  channel_.send(text, descriptors);
  while (channel_.has_unsent() && !channel_.closed()) {
    pollfd polled{channel_.fd(), POLLOUT, 0};
    poll(&polled, 1, -1);
    channel_.flush();
  }
}

void KeeperLine::tell(const AgentRequest& request, const std::vector<int>& descriptors) {
  send(encode(request), descriptors);
}

Packet KeeperLine::answer() {
  while (true) {
    auto packet = next_packet();
    if (!packet) fail_gone();
    const KeeperMessage message = decode_keeper_message(packet->text);
    if (std::holds_alternative<RankStarted>(message) || std::holds_alternative<WhyNot>(message))
      return std::move(*packet);
    waiting_.push_back(message);
  }
}

RankGiven KeeperLine::start(const StartRank& request) {
  tell(request);
  Packet packet = answer();
  const KeeperMessage message = decode_keeper_message(packet.text);
  const auto* started = std::get_if<RankStarted>(&message);
  check(started != nullptr && started->worker == request.worker, "keeper: no answer about worker {}",
        request.worker);
  return rank_of(*started, std::move(packet.descriptors));
}

std::string KeeperLine::refuse_size(int num_ranks) {
  tell(AskSize{num_ranks});
  return why_not();
}

std::string KeeperLine::refuse_setting(const std::string& setting) {
  tell(AskSetting{setting});
  return why_not();
}

std::string KeeperLine::why_not() {
  const KeeperMessage message = decode_keeper_message(answer().text);
  const auto* answered = std::get_if<WhyNot>(&message);
  check(answered != nullptr, "keeper: no answer to what was asked");
  return answered->why_not;
}

void KeeperLine::hold(const std::map<std::string, int>& descriptors) {
  Keep more;
  std::vector<int> fds;
  const auto flush = [&] {
    if (!fds.empty()) tell(std::exchange(more, {}), std::exchange(fds, {}));
  };
  for (const auto& [key, fd] : descriptors) {
    const auto found = held_.find(key);
    if (found != held_.end() && found->second == fd) continue;
    more.keys.push_back(key);
    fds.push_back(fd);
    if (fds.size() == kKeysAPacket) flush();
  }
  flush();
  Forget less;
  for (const auto& [key, fd] : held_) {
    if (!descriptors.contains(key)) less.keys.push_back(key);
    if (less.keys.size() < kKeysAPacket) continue;
    tell(std::exchange(less, {}));
  }
  if (!less.keys.empty()) tell(less);
  held_ = descriptors;
}

std::vector<KeeperMessage> KeeperLine::take() {
  while (auto packet = channel_.receive()) waiting_.push_back(decode_keeper_message(packet->text));
  return std::exchange(waiting_, {});
}

}  // namespace athanor::launch::keeper
