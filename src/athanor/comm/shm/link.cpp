#include "athanor/comm/shm/link.h"

#include <sched.h>

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"

namespace athanor::comm::shm {

namespace {

constexpr int kSpins = 50;  // a microsecond or two; on a busy machine longer spinning wastes the core

}  // namespace

struct SlotLink::Watch {
  int64_t start_ns = 0;
  int64_t report_ns = 0;  // when the next report of lateness is due, after the start
};

SlotLink::SlotLink(SlotArena arena, int rank, GroupOptions options, Liveness death_of,
                   std::optional<Membership> membership)
    : arena_(arena),
      rank_(rank),
      options_(std::move(options)),
      death_of_(std::move(death_of)),
      membership_(std::move(membership)),
      spins_(arena.size() <= num_usable_cpus()) {
  check(options_.timeout_ms > 0 && options_.late_ms > 0, "{}: timeout_ms {} and late_ms {} must be positive",
        options_.text(), options_.timeout_ms, options_.late_ms);
}

std::optional<GroupFailure> SlotLink::failure() const {
  if (auto failure = arena_.failure()) return failure;
  return membership_ ? membership_->world.failure() : std::nullopt;
}

void SlotLink::throw_if_broken() const {
  if (const auto broken = failure()) broken->raise();
}

std::string SlotLink::rank_text(int rank) const {
  if (!membership_) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({} of the world)", rank, membership_->ranks[static_cast<size_t>(rank)]);
}

std::string SlotLink::ranks_text(const std::vector<int>& ranks) const {
  if (ranks.size() == 1) return rank_text(ranks[0]);
  std::vector<int> in_world;
  if (membership_)
    for (const int rank : ranks) in_world.push_back(membership_->ranks[static_cast<size_t>(rank)]);
  return fmt::format("ranks {}", fmt::join(ranks, ", ")) +
         (membership_ ? fmt::format(" ({} of the world)", fmt::join(in_world, ", ")) : "");
}

std::string SlotLink::last_seen(int rank) const {
  if (!membership_ || static_cast<Presence>(arena_.control(rank).presence.load()) != Presence::not_joined)
    return arena_.last_seen(rank);
  return fmt::format("has not joined yet (in the world it {})",
                     membership_->world.last_seen(membership_->ranks[static_cast<size_t>(rank)]));
}

void SlotLink::fail(GroupFailure::Kind kind, int rank, const std::string& text) const {
  arena_.fail({kind, rank, text});
  throw_if_broken();  // an earlier failure wins
  throw Recoverable(text);
}

std::string SlotLink::place() const {
  return fmt::format("{}, collective {} {}", options_.text(), sequence_, call_.text());
}

void SlotLink::begin(const Call& call) {
  call_ = call;
  throw_if_broken();
  clock_.note(call_.name, options_.now_ns());
  play_fault();
}

uint32_t SlotLink::announce() {
  arena_.write_call(rank_, sequence_, call_);
  const uint32_t event = publish();
  others_are_pending();
  await_pending(event, true);
  return event;
}

void SlotLink::end() {
  ++sequence_;
  arena_.control(rank_).calls_done.store(sequence_, std::memory_order_relaxed);
}

uint32_t SlotLink::publish() {
  arena_.publish(rank_, ++event_);
  return event_;
}

void SlotLink::await(uint32_t event) {
  others_are_pending();
  await_pending(event, false);
}

void SlotLink::others_are_pending() {
  pending_.clear();
  for (int i = 1; i < size(); ++i) pending_.push_back((rank_ + i) % size());
}

void SlotLink::join_work() {
  arena_.control(rank_).working.store(sequence_ + 1);
}

std::optional<int64_t> SlotLink::claim(int owner, int64_t num_chunks) const {
  return arena_.claim(owner, sequence_, num_chunks);
}

// Called when no chunk is left to claim. A rank that joins later finds none either, since joining and claiming are
// sequentially consistent; so only ranks that have joined are waited for.
void SlotLink::finish_work() {
  const uint32_t event = publish();
  others_are_pending();
  std::erase_if(pending_, [&](int rank) { return arena_.control(rank).working.load() != sequence_ + 1; });
  await_pending(event, false);
}

bool SlotLink::reached(int rank, uint32_t event) const {
  return static_cast<int32_t>(arena_.control(rank).progress.load(std::memory_order_acquire) - event) >= 0;
}

void SlotLink::await_pending(uint32_t event, bool compare) {
  Watch watch;
  for (int tries = 0;; ++tries) {
    for (size_t i = 0; i < pending_.size();) {
      if (!reached(pending_[i], event)) {
        ++i;
        continue;
      }
      if (compare && !arena_.same_call(rank_, pending_[i], sequence_)) mismatch();
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (pending_.empty()) return;
    if (spins_ && tries < kSpins) {
      __builtin_ia32_pause();
    } else if (tries < (spins_ ? kSpins : 0) + kYields) {
      sched_yield();
    } else {
      look_around(event, watch);
      const int first = pending_.front();
      const uint32_t seen = arena_.control(first).progress.load(std::memory_order_acquire);
      if (static_cast<int32_t>(seen - event) < 0) arena_.sleep_while(first, seen, kSliceMs);
    }
  }
}

void SlotLink::look_around(uint32_t event, Watch& watch) {
  throw_if_broken();
  for (int rank : pending_) {
    const std::string reason = loss_of(rank);
    // The rank may have reached the event before it died or left.
    if (!reason.empty() && !reached(rank, event)) lose(rank, reason, place());
    throw_if_broken();
  }
  const int64_t now = options_.now_ns();
  if (watch.start_ns == 0) {
    watch = {now, clock_.late_after_ns(options_.late_ms)};
    return;
  }
  const int64_t waited = now - watch.start_ns;
  const double seconds = static_cast<double>(waited) * 1e-9;
  if (waited >= options_.timeout_ms * 1'000'000) {
    fail(GroupFailure::Kind::timeout, pending_.front(),
         fmt::format("{}: timed out after {:.1f} s on {}, waiting for {}", place(), seconds, rank_text(rank_),
                     missing(event)));
  }
  if (waited >= watch.report_ns) {
    watch.report_ns *= 2;
    if (options_.on_late)
      options_.on_late(fmt::format("{}: {} has waited {:.1f} s for {}", place(), rank_text(rank_), seconds,
                                   missing(event)));
  }
}

std::string SlotLink::loss_of(int rank) const {
  const auto presence_of = [](const SlotArena& arena, int r) {
    return static_cast<Presence>(arena.control(r).presence.load());
  };
  std::string dead = death_of_(rank);  // before its presence: a rank that leaves and then exits has left
  const Presence presence = presence_of(arena_, rank);
  if (presence == Presence::left) return "it has left the group";
  if (presence == Presence::joined) return dead;
  if (!membership_) return "";
  const Presence in_world = presence_of(membership_->world, membership_->ranks[static_cast<size_t>(rank)]);
  if (in_world == Presence::left) return "it has left the world";
  return in_world == Presence::joined ? dead : "";
}

void SlotLink::look_for_deaths() const {
  throw_if_broken();
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    const std::string reason = loss_of(rank);
    if (static_cast<Presence>(arena_.control(rank).presence.load()) == Presence::left) continue;
    if (!reason.empty()) lose(rank, reason, options_.text());
  }
  throw_if_broken();
}

void SlotLink::lose(int rank, const std::string& reason, const std::string& where) const {
  const std::string text =
      fmt::format("{} was lost: {}; {}; it {}", rank_text(rank), reason, where, last_seen(rank));
  arena_.fail({GroupFailure::Kind::peer_lost, rank, text});
  if (membership_ && !death_of_(rank).empty())
    membership_->world.fail(
        {GroupFailure::Kind::peer_lost, membership_->ranks[static_cast<size_t>(rank)], text});
}

std::string SlotLink::missing(uint32_t event) const {
  std::string text;
  for (int rank : pending_)
    if (!reached(rank, event))
      text += fmt::format("{}{}, which {}", text.empty() ? "" : "; ", rank_text(rank), last_seen(rank));
  return text.empty() ? "nobody any more" : text;
}

void SlotLink::mismatch() const {
  std::map<std::string, std::vector<int>> callers;
  for (int rank = 0; rank < size(); ++rank) {
    const auto call = arena_.read_call(rank, sequence_);
    callers[call ? call->text() : "nothing yet"].push_back(rank);
  }
  std::string text;
  for (const auto& [call, ranks] : callers)
    text += (text.empty() ? "" : "; ") + ranks_text(ranks) + " called " + call;
  fail(GroupFailure::Kind::mismatch, rank_,
       fmt::format("{}: the ranks do not make the same collective {}: {}", options_.text(), sequence_, text));
}

void SlotLink::play_fault() {
  if (!options_.before_call) return;
  switch (options_.before_call(rank_, sequence_)) {
    case Fault::none:
      return;
    case Fault::die:
      lose(rank_, "killed by an injected fault", place());
      throw_if_broken();
      break;
    case Fault::hang:
      break;
  }
  const auto others_left = [&] {
    for (int rank = 0; rank < size(); ++rank)
      if (rank != rank_ && static_cast<Presence>(arena_.control(rank).presence.load()) != Presence::left)
        return false;
    return true;
  };
  while (!failure() && !others_left()) arena_.sleep_until_broken(kSliceMs);
  throw_if_broken();
  fail(GroupFailure::Kind::aborted, rank_,
       fmt::format("{}: {} hung by an injected fault", place(), rank_text(rank_)));
}

}  // namespace athanor::comm::shm
