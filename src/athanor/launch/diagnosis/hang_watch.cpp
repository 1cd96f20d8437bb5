#include "athanor/launch/diagnosis/hang_watch.h"

#include <algorithm>

#include "athanor/launch/diagnosis/progress_watch.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr size_t kLeastIntervals = 3;
constexpr int64_t kMedians = 20;

size_t index_of(control::ProgressKind kind) {
  return static_cast<size_t>(kind);
}

}  // namespace

void HangWatch::formed(int num_ranks) {
  num_ranks_ = num_ranks;
  ranks_.clear();
  segment_begins();
}

void HangWatch::segment_begins() {
  intervals_[index_of(control::ProgressKind::step)].num = 0;
}

void HangWatch::progress(int rank, const control::Progress& progress, int64_t now_ns) {
  Rank& one = ranks_[rank];
  if (one.kind == progress.kind && progress.count > one.count && one.since_ns > 0) {
    Intervals& of_kind = intervals_[index_of(one.kind)];
    of_kind.latest_ns[of_kind.num++ % of_kind.latest_ns.size()] =
        (now_ns - one.since_ns) / (progress.count - one.count);
  }
  one = {.kind = progress.kind, .count = progress.count, .since_ns = now_ns};
}

void HangWatch::forget(int rank) {
  ranks_.erase(rank);
}

std::optional<int64_t> HangWatch::median_of(control::ProgressKind kind) const {
  const Intervals& of_kind = intervals_[index_of(kind)];
  const size_t count = std::min(of_kind.num, of_kind.latest_ns.size());
  if (count < kLeastIntervals) return std::nullopt;
  auto latest = of_kind.latest_ns;
  const auto middle = latest.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(latest.begin(), middle, latest.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

bool HangWatch::is_late(const Rank& rank, int64_t now_ns) const {
  const int64_t least_ns = options_.least_ns[index_of(rank.kind)];
  const auto median = median_of(rank.kind);
  return least_ns > 0 && median && now_ns - rank.since_ns >= std::max(least_ns, kMedians * *median);
}

std::optional<Standstill> HangWatch::look(int64_t now_ns, bool counts) {
  const int64_t between_ns = look_ns_ < 0 ? 0 : now_ns - look_ns_;
  look_ns_ = now_ns;
  if (!counts || between_ns > kMostBetweenLooksNs) {
    for (auto& [rank, one] : ranks_) one.since_ns = std::min(one.since_ns + between_ns, now_ns);
    return std::nullopt;
  }
  if (ranks_.empty() || std::ssize(ranks_) != num_ranks_) return std::nullopt;
  const Rank* last = nullptr;
  for (const auto& [rank, one] : ranks_) {
    if (!is_late(one, now_ns)) return std::nullopt;
    if (last == nullptr || one.since_ns > last->since_ns) last = &one;
  }
  return Standstill{
      .kind = last->kind, .still_ns = now_ns - last->since_ns, .usual_ns = median_of(last->kind).value_or(0)};
}

}  // namespace athanor::launch::diagnosis
