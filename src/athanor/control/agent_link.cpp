#include "athanor/control/agent_link.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
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
constexpr size_t kMostSaid = 200;  // kept, for an agent that takes over; fits into what a channel keeps
constexpr int kMostTries = 5;

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
  channel_.send(encode(Hello{.job = options_.job, .worker = options_.worker, .pid = getpid()}));
  // The thread inherits what is blocked here: signals are for threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] {
    options_.on_thread();
    stay_connected();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AgentLink::~AgentLink() {
  int64_t until_ns = 0;
  {
    const std::scoped_lock lock(mutex_);
    until_ns = leave_at_ns_ = now_ns() + kLastWordsNs;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
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
  const auto is_over = [&] {
    if (offer_ && offer_->generation <= generation) offer_.reset();
    return offer_ || failure_ || lost_ || !ended_.empty();
  };
  while (true) {
    changed_.wait(lock, [&] { return is_over() || warmed_up_ < warm_up_; });
    const int64_t round = warmed_up_ = warm_up_;  // with a world there is nothing to measure any more
    if (is_over()) break;
    lock.unlock();
    WarmedUp measured = options_.warm_up();
    measured.round = round;
    say(measured, Delivery::certain);
    lock.lock();
  }
  if (failure_) std::rethrow_exception(failure_);
  if (lost_ || !ended_.empty()) return std::nullopt;
  return std::exchange(offer_, std::nullopt);
}

std::optional<Persisted> AgentLink::take_persisted(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return !persisted_.empty() || failure_ || lost_; });
  if (persisted_.empty()) return std::nullopt;
  Persisted first = std::move(persisted_.front());
  persisted_.pop_front();
  return first;
}

std::string AgentLink::ended_because() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

uint64_t AgentLink::num_shed() const {
  const std::scoped_lock lock(mutex_);
  return num_shed_ + channel_.num_shed();
}

// A failure to send is found by the thread, too: it tells of it.
void AgentLink::say(const WorkerMessage& message, Delivery delivery) {
  Sent sent = Sent::lost;
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return;
    if (delivery == Delivery::certain) {
      said_.push_back(encode(message, ++num_said_));
      if (said_.size() > kMostSaid) said_.pop_front();
      if (!holds_) sent = channel_.send(said_.back(), {}, delivery);
    } else if (!holds_) {
      channel_.send(encode(message), {}, delivery);
    }
  }
  if (sent == Sent::kept) eventfd_write(wake_.get(), 1);
}

// Its descriptor cannot be kept as text in said_, and an agent that dies has written nothing: until the answer is there, each
// agent is told.
void AgentLink::persist(const Persist& persist, int files) {
  Descriptor kept(fcntl(files, F_DUPFD_CLOEXEC, 0));
  if (kept.get() < 0) throw IoError(fmt::format("cannot keep a descriptor: {}", std::strerror(errno)), errno);
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return;
    orders_.push_back({persist, std::move(kept)});
    if (!holds_) send_order(orders_.back());
  }
  eventfd_write(wake_.get(), 1);
}

void AgentLink::send_order(const Order& order) {
  const int files = order.files.get();
  channel_.send(encode(order.persist), {&files, 1});
}

void AgentLink::stay_connected() {
  try {
    while (receive_all())
      if (!connect_again()) return lose("the launcher's agent is gone");
  } catch (const IoError& error) {
    error.code() == EMFILE ? give_up() : lose(error.what());
  } catch (const Failure& error) {
    lose(error.what());
  }
}

// The agent is there, but this process has no room for what it sends, which somebody waits for.
void AgentLink::give_up() {
  const std::scoped_lock lock(mutex_);
  failure_ = std::current_exception();
  changed_.notify_all();
}

// What nobody has taken yet may be waited for.
bool AgentLink::may_leave() const {
  return leave_at_ns_ != 0 && (!holds_ || now_ns() >= leave_at_ns_);
}

bool AgentLink::receive_all() {
  while (true) {
    pollfd polled[2] = {{-1, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    bool leaves = false;
    {
      const std::scoped_lock lock(mutex_);
      if (may_leave()) return false;
      leaves = leave_at_ns_ != 0;
      polled[0].fd = channel_.fd();
      if (channel_.has_unsent()) polled[0].events |= POLLOUT;
    }
    const int64_t before_ns = now_ns();
    poll(polled, 2, pulse_ || leaves ? kBeatMs : -1);
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
    if (channel_.closed()) return !may_leave();
  }
}

// An agent that takes over has the socket of the one before it. Between the two nobody answers, but the socket is there.
bool AgentLink::connect_again() {
  if (++num_tries_ > kMostTries) return false;
  try {
    PacketChannel channel = PacketChannel::connect(options_.path);
    channel.send(encode(Hello{.job = options_.job, .worker = options_.worker, .pid = getpid()}));
    const std::scoped_lock lock(mutex_);
    num_shed_ += channel_.num_shed();
    channel_ = std::move(channel);
    holds_ = true;
    return true;
  } catch (const IoError&) {
    return false;
  }
}

void AgentLink::welcome(const Welcome& welcome) {
  num_tries_ = 0;
  if (!std::exchange(holds_, false)) return;
  const int64_t first = num_said_ - std::ssize(said_) + 1;
  for (int64_t number = std::max(first, welcome.taken + 1); number <= num_said_; ++number)
    channel_.send(said_[static_cast<size_t>(number - first)]);
  for (Order& order : orders_) {
    order.persist.repeated = true;
    send_order(order);
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
  if (const auto* known = std::get_if<Welcome>(&message)) welcome(*known);
  if (const auto* meet = std::get_if<Meet>(&message)) offer_ = offer_of(*meet, std::move(packet.descriptors));
  if (const auto* persisted = std::get_if<Persisted>(&message)) {
    std::erase_if(orders_, [&](const Order& order) { return order.persist.step == persisted->step; });
    persisted_.push_back(*persisted);
  }
  if (const auto* asked = std::get_if<WarmUp>(&message)) warm_up_ = std::max(warm_up_, asked->round);
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
