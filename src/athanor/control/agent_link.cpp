#include "athanor/control/agent_link.h"

#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::control {
namespace {

constexpr int64_t kLastWordsNs = 1'000'000'000;
constexpr size_t kPulseOfMeet = 2;

WorldOffer offer_of(const Meet& meet, std::vector<Descriptor> descriptors) {
  check(descriptors.size() == 3 + meet.left.size(),
        "control message 'meet': came with {} descriptors, expected {}", descriptors.size(),
        3 + meet.left.size());
  WorldOffer offer{.generation = meet.generation,
                   .rank = meet.rank,
                   .size = meet.size,
                   .why = meet.why,
                   .segment = std::move(descriptors[0]),
                   .slots = std::move(descriptors[1]),
                   .left = {},
                   .order = meet.order};
  for (size_t i = 0; i < meet.left.size(); ++i)
    offer.left.push_back({meet.left[i], std::move(descriptors[3 + i])});
  return offer;
}

}  // namespace

AgentLink::AgentLink(AgentLinkOptions options)
    : options_(std::move(options)),
      channel_(PacketChannel::connect(options_.path)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.get() < 0) throw IoError(fmt::format("eventfd: {}", std::strerror(errno)), errno);
  say(Hello{.job = options_.job, .worker = options_.worker, .pid = getpid()}, Delivery::certain);
  // The thread inherits what is blocked here: signals are for threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] {
    options_.on_thread();
    receive_all();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AgentLink::~AgentLink() {
  {
    const std::scoped_lock lock(mutex_);
    leaving_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
  const int64_t until_ns = now_ns() + kLastWordsNs;
  while (channel_.has_unsent() && now_ns() < until_ns) {
    pollfd polled{channel_.fd(), POLLOUT, 0};
    poll(&polled, 1, static_cast<int>((until_ns - now_ns()) / 1'000'000 + 1));
    try {
      channel_.flush();
    } catch (const IoError&) {
      return;
    }
  }
}

std::optional<WorldOffer> AgentLink::next(int64_t generation, const std::string& why) {
  say(Ready{.generation = generation, .why = why}, Delivery::certain);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    if (offer_ && offer_->generation <= generation) offer_.reset();
    return offer_ || lost_ || !ended_.empty();
  });
  if (lost_ || !ended_.empty()) return std::nullopt;
  return std::exchange(offer_, std::nullopt);
}

std::string AgentLink::ended_because() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

uint64_t AgentLink::num_shed() const {
  const std::scoped_lock lock(mutex_);
  return channel_.num_shed();
}

// A failure to send is found by the thread, too: it tells of it.
void AgentLink::say(const WorkerMessage& message, Delivery delivery) {
  const std::string text = encode(message);
  Sent sent = Sent::lost;
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return;
    sent = channel_.send(text, {}, delivery);
  }
  if (sent == Sent::kept) eventfd_write(wake_.get(), 1);
}

void AgentLink::receive_all() {
  try {
    while (true) {
      pollfd polled[2] = {{-1, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      {
        const std::scoped_lock lock(mutex_);
        if (leaving_) return;
        polled[0].fd = channel_.fd();
        if (channel_.has_unsent()) polled[0].events |= POLLOUT;
      }
      const int64_t before_ns = now_ns();
      poll(polled, 2, pulse_ ? kBeatMs : -1);
      if (pulse_) listen_to_pulse(now_ns() - before_ns);
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
      while (true) {
        std::optional<Packet> packet;
        {
          const std::scoped_lock lock(mutex_);
          channel_.flush();
          packet = channel_.receive();
          if (channel_.closed()) break;
        }
        if (!packet) break;
        take(std::move(*packet));
      }
      const std::scoped_lock lock(mutex_);
      if (channel_.closed()) break;
    }
    lose("the launcher's agent is gone");
  } catch (const Failure& error) {
    lose(error.what());
  }
}

void AgentLink::take(Packet packet) {
  const AgentMessage message = decode_agent_message(packet.text);
  if (const auto* stop = std::get_if<Stop>(&message)) {
    options_.on_stop(stop->signal);
    return;
  }
  if (std::holds_alternative<Meet>(message) && !pulse_ && packet.descriptors.size() > kPulseOfMeet)
    pulse_.emplace(packet.descriptors[kPulseOfMeet].get());
  const std::scoped_lock lock(mutex_);
  if (const auto* meet = std::get_if<Meet>(&message)) offer_ = offer_of(*meet, std::move(packet.descriptors));
  if (const auto* end = std::get_if<End>(&message)) ended_ = end->why.empty() ? "no other world" : end->why;
  changed_.notify_all();
}

void AgentLink::listen_to_pulse(int64_t elapsed_ns) {
  const int64_t silent_ns = pulse_->listen(elapsed_ns);
  if (silent_ns >= int64_t{1'000'000} * options_.silence_ms)
    throw Timeout(fmt::format("the launcher's agent has been silent for {:.3g} s",
                              static_cast<double>(silent_ns) * 1e-9));
}

void AgentLink::lose(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    lost_ = true;
    if (ended_.empty()) ended_ = why;
  }
  changed_.notify_all();
  options_.on_lost(why);
}

}  // namespace athanor::control
