#include "athanor/comm/network/network_link.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/comm/world.h"

namespace athanor::comm::network {

namespace {

// After a broken connection: how long to wait for news of its cause (an abort, or a rank that died).
constexpr int64_t kWireReasonMs = 300;
// After waiting so long for one rank, the messages of the other ranks are polled, too: they may show a mismatch.
constexpr int64_t kOthersNs = 300'000'000;
constexpr size_t kMaxMessageBytes = size_t{256} << 20;

}  // namespace

struct WireLink::Watch {
  int64_t start_ns = 0;
  int64_t report_ns = 0;  // when the next report of lateness is due, after the start
};

WireLink::WireLink(std::shared_ptr<Wire> wire, std::vector<int> members, const WireGroupIds& ids,
                   GroupOptions options)
    : wire_(std::move(wire)),
      members_(std::move(members)),
      ids_(ids),
      header_channel_(channel("header")),
      options_(std::move(options)),
      incoming_(members_.size()),
      headers_(members_.size()),
      came_(members_.size()) {
  check(options_.timeout_ms > 0 && options_.late_ms > 0, "{}: timeout_ms {} and late_ms {} must be positive",
        options_.text(), options_.timeout_ms, options_.late_ms);
  const auto me = std::find(members_.begin(), members_.end(), wire_->rank());
  check(me != members_.end(), "group '{}': rank {} of the world is no member", options_.name, wire_->rank());
  rank_ = static_cast<int>(me - members_.begin());
}

uint64_t WireLink::channel(const std::string& purpose) const {
  return hash64(purpose, ids_.channels);
}

std::unique_ptr<Wire::Message> WireLink::send(int to, uint64_t channel, const void* data, size_t size_bytes) {
  return wire_->send(members_[static_cast<size_t>(to)], channel, data, size_bytes);
}

std::unique_ptr<Wire::Message> WireLink::recv(int from, uint64_t channel, void* data, size_t size_bytes) {
  return wire_->recv(members_[static_cast<size_t>(from)], channel, data, size_bytes);
}

void WireLink::throw_if_broken() {
  if (const auto failure = wire_->failure(ids_.group)) failure->raise();
}

void WireLink::look_for_losses() {
  throw_if_broken();
  if (const auto lost = wire_->first_lost(members_))
    lose(rank_, lost->reason,
         {[this] { return options_.text(); },
          [](int) { return std::string("was in no call of this transport"); }, 0});
}

void WireLink::fail(GroupFailure::Kind kind, int rank, const std::string& text) {
  wire_->fail(ids_.group, {kind, rank, text});
  throw_if_broken();  // an earlier failure wins
  throw Recoverable(text);
}

GroupFailure WireLink::failure_of(const std::exception& error) {
  const GroupFailure own{GroupFailure::Kind::aborted, rank_,
                         fmt::format("{}: rank {} failed: {}", place(), rank_, error.what())};
  wire_->fail(ids_.group, own);
  return wire_->failure(ids_.group).value_or(own);
}

void WireLink::abort(const std::string& reason) {
  wire_->fail(ids_.group, {GroupFailure::Kind::aborted, rank_,
                           fmt::format("rank {} aborted {}: {}", rank_, options_.text(), reason)});
}

std::string WireLink::place() const {
  return fmt::format("{}, collective {} {}", options_.text(), sequence_, call_.text());
}

WireLink::Waiting WireLink::in_call() const {
  return {[this] { return place(); }, [this](int rank) { return last_seen(rank); },
          clock_.late_after_ns(options_.late_ms)};
}

void WireLink::begin(const Call& call, int64_t extra) {
  call_ = call;
  sent_bytes_ = 0;
  throw_if_broken();
  clock_.note(call.name, options_.now_ns());
  play_fault();
  std::fill(came_.begin(), came_.end(), false);
  headers_[static_cast<size_t>(rank_)] = CallHeader(ids_.group, sequence_, call, extra, options_.generation);
  came_[static_cast<size_t>(rank_)] = true;
  try {
    std::vector<Pending> incoming;
    for (int i = 1; i < size(); ++i) {
      const int from = (rank_ + size() - i) % size();
      incoming.push_back(
          {recv(from, header_channel_, &incoming_[static_cast<size_t>(from)], sizeof(CallHeader)), from});
    }
    for (int i = 1; i < size(); ++i) {
      const int to = (rank_ + i) % size();
      sent_headers_.push_back(
          {send(to, header_channel_, &headers_[static_cast<size_t>(rank_)], sizeof(CallHeader)), to});
    }
    Waiting waiting = in_call();
    waiting.on_done = [this](int from) { check_header(from); };
    await(incoming, waiting);
  } catch (...) {
    sent_headers_.clear();
    throw;
  }
}

void WireLink::check_header(int rank) {
  const CallHeader& theirs = incoming_[static_cast<size_t>(rank)];
  check_generation(theirs, rank);
  if (theirs.left()) lose(rank, "it has left the group", in_call());
  if (theirs.group != ids_.group) {
    const std::string text = fmt::format("{}: its members are {}, but {} has another list", options_.text(),
                                         members_text(members_), text_of(rank));
    // Breaks the other rank's group, too.
    wire_->fail(theirs.group, {GroupFailure::Kind::mismatch, rank, text});
    fail(GroupFailure::Kind::mismatch, rank, text);
  }
  headers_[static_cast<size_t>(rank)] = theirs;
  came_[static_cast<size_t>(rank)] = true;
  const CallHeader& mine = headers_[static_cast<size_t>(rank_)];
  if (theirs.same_call(mine)) return;
  std::map<std::string, std::string> callers;
  for (int r = 0; r < size(); ++r) {
    if (!came_[static_cast<size_t>(r)]) continue;
    std::string& ranks = callers[headers_[static_cast<size_t>(r)].call().text()];
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  std::string text;
  for (const auto& [call, ranks] : callers)
    text += fmt::format("{}{} {} called {}", text.empty() ? "" : "; ",
                        ranks.find(',') == std::string::npos ? "rank" : "ranks", ranks, call);
  fail(GroupFailure::Kind::mismatch, rank_,
       fmt::format("{}: the ranks do not make the same collective {}: {}", options_.text(), sequence_, text));
}

void WireLink::check_generation(const CallHeader& theirs, int rank) {
  if (theirs.generation == options_.generation) return;
  fail(GroupFailure::Kind::mismatch, rank,
       fmt::format("group '{}': {} is of generation {} of the world, {} of generation {}", options_.name,
                   text_of(rank_), options_.generation, text_of(rank), theirs.generation));
}

std::string WireLink::text_of(int rank) const {
  const int of_world = members_[static_cast<size_t>(rank)];
  return size() == wire_->size() ? fmt::format("rank {}", rank)
                                 : fmt::format("rank {} ({} of the world)", rank, of_world);
}

void WireLink::end() {
  await(sent_headers_);
  sent_headers_.clear();
  traffic_.add(call_.collective, sent_bytes_);
  ++sequence_;
}

void WireLink::leave() {
  if (wire_->failure(ids_.group)) return;  // the other ranks know of the failure, which says more
  CallHeader last;
  last.group = ids_.group;
  last.sequence = sequence_;
  last.what = CallHeader::kLeft;
  last.generation = options_.generation;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const auto* bytes = static_cast<const std::byte*>(static_cast<const void*>(&last));
    wire_->send_last(members_[static_cast<size_t>(r)], header_channel_, {bytes, bytes + sizeof(last)});
  }
}

void WireLink::await(std::vector<Pending>& pending) {
  await(pending, in_call());
}

void WireLink::await(std::vector<Pending>& pending, const Waiting& waiting) {
  Watch watch;
  for (size_t i = 0; i < pending.size(); ++i) {
    try {
      while (true) {
        wait_slice(pending[i], waiting);
        if (pending[i].done) break;
        look_around(pending, i, waiting, watch);
      }
    } catch (const Wire::ConnectionLost& error) {
      lose(pending[i].peer, error.what(), waiting);
    }
    watch = {};  // progress
  }
}

void WireLink::wait_slice(Pending& one, const Waiting& waiting) {
  if (one.done || !one.message->wait()) return;
  one.done = true;
  if (waiting.on_done) waiting.on_done(one.peer);
}

void WireLink::look_around(std::vector<Pending>& pending, size_t first, const Waiting& waiting,
                           Watch& watch) {
  throw_if_broken();
  if (wire_->first_lost(members_)) lose(pending[first].peer, "", waiting);
  const int64_t now = options_.now_ns();
  if (watch.start_ns == 0) {
    watch = {now, waiting.late_after_ns};
    return;
  }
  const int64_t waited = now - watch.start_ns;
  const double seconds = static_cast<double>(waited) * 1e-9;
  if (waited >= kOthersNs)
    for (size_t i = first + 1; i < pending.size(); ++i) wait_slice(pending[i], waiting);
  if (waited >= options_.timeout_ms * 1'000'000) {
    const int peer = pending[first].peer;
    fail(GroupFailure::Kind::timeout, peer,
         fmt::format("{}: timed out after {:.1f} s on rank {}, waiting for {}", waiting.place(), seconds,
                     rank_, missing(pending, first, waiting)));
  }
  if (waited >= watch.report_ns) {
    watch.report_ns *= 2;
    if (options_.on_late)
      options_.on_late(fmt::format("{}: rank {} has waited {:.1f} s for {}", waiting.place(), rank_, seconds,
                                   missing(pending, first, waiting)));
  }
}

std::string WireLink::missing(std::vector<Pending>& pending, size_t first, const Waiting& waiting) {
  std::vector<int> peers;
  for (size_t i = first; i < pending.size(); ++i) {
    if (std::find(peers.begin(), peers.end(), pending[i].peer) != peers.end()) continue;
    wait_slice(pending[i], waiting);
    if (!pending[i].done) peers.push_back(pending[i].peer);
  }
  std::string text;
  for (const int peer : peers)
    text += fmt::format("{}{}, which {}", text.empty() ? "" : "; ", text_of(peer), waiting.doing(peer));
  return text.empty() ? "nobody any more" : text;
}

std::string WireLink::last_seen(int rank) const {
  const CallHeader& header = headers_[static_cast<size_t>(rank)];
  if (header.group != ids_.group) return "has called no collective yet";
  return fmt::format("{} collective {} {}", header.sequence == sequence_ ? "is in" : "last called",
                     header.sequence, header.call().text());
}

// A rank that fails reports why before it exits, and a rank whose peer has died leaves. The end of its connection may
// arrive before that news, so this waits a little for the news.
void WireLink::lose(int rank, std::string reason, const Waiting& waiting) {
  std::optional<Wire::Loss> known;
  for (int64_t waited = 0; waited < kWireReasonMs; waited += 10) {
    throw_if_broken();
    known = wire_->first_lost(members_);
    if (known) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (known) {
    rank = static_cast<int>(std::find(members_.begin(), members_.end(), known->rank) - members_.begin());
    reason = known->reason;
  }
  fail(
      GroupFailure::Kind::peer_lost, rank,
      fmt::format("{} was lost: {}; {}; it {}", text_of(rank), reason, waiting.place(), waiting.doing(rank)));
}

void WireLink::play_fault() {
  if (!options_.before_call) return;
  switch (options_.before_call(rank_, sequence_)) {
    case Fault::none:
      return;
    case Fault::die:
      fail(GroupFailure::Kind::peer_lost, rank_,
           fmt::format("rank {} was lost: killed by an injected fault; {}", rank_, place()));
    case Fault::hang:
      break;
  }
  while (true) {
    throw_if_broken();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Transfers::send(int to, const void* data, size_t size_bytes) {
  link_.count_sent(size_bytes);
  send_uncounted(to, data, size_bytes);
}

void Transfers::send_uncounted(int to, const void* data, size_t size_bytes) {
  for (size_t at = 0; at < size_bytes; at += kMaxMessageBytes) {
    const size_t part = std::min(kMaxMessageBytes, size_bytes - at);
    pending_.push_back({link_.send(to, channel_, static_cast<const std::byte*>(data) + at, part), to});
  }
}

void Transfers::recv(int from, void* data, size_t size_bytes) {
  for (size_t at = 0; at < size_bytes; at += kMaxMessageBytes) {
    const size_t part = std::min(kMaxMessageBytes, size_bytes - at);
    pending_.push_back({link_.recv(from, channel_, static_cast<std::byte*>(data) + at, part), from});
  }
}

void Transfers::wait() {
  link_.await(pending_);
  pending_.clear();
}

}  // namespace athanor::comm::network
