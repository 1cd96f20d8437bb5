#include "athanor/launch/diagnosis/progress_watch.h"

#include <algorithm>
#include <iterator>

namespace athanor::launch::diagnosis {
namespace {

constexpr int kLooksToTell = 2;  // a stop of a moment, as a tracer makes it, is none
constexpr int64_t kMedianSteps = 5;

bool is_stopped(char state) {
  return state == 'T' || state == 't';
}

}  // namespace

void ProgressWatch::formed() {
  step_ = progress_ns_ = -1;
  num_intervals_ = 0;
}

void ProgressWatch::forget(int rank) {
  stops_.erase(rank);
}

// Of several ranks that do a step, the first one counts.
void ProgressWatch::progress(int64_t step, int64_t now_ns) {
  if (step <= step_) return;
  step_ = step;
  if (progress_ns_ >= 0) intervals_ns_[num_intervals_++ % intervals_ns_.size()] = now_ns - progress_ns_;
  progress_ns_ = now_ns;
}

bool ProgressWatch::wants_states(int64_t now_ns) const {
  if (look_ns_ >= 0 && now_ns - look_ns_ < kLookNs) return false;
  return !stops_.empty() || progress_ns_ < 0 || now_ns - progress_ns_ >= kLookNs;
}

int64_t ProgressWatch::limit_ns() const {
  const size_t count = std::min(num_intervals_, intervals_ns_.size());
  if (count == 0) return options_.kill_ns;
  auto intervals = intervals_ns_;
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(intervals.begin(), middle, intervals.begin() + static_cast<std::ptrdiff_t>(count));
  return std::max(options_.kill_ns, kMedianSteps * *middle);
}

std::vector<StoppedRank> ProgressWatch::look(int64_t now_ns, const std::vector<SeenState>& ranks) {
  const int64_t between_ns = look_ns_ < 0 ? 0 : now_ns - look_ns_;
  look_ns_ = now_ns;
  if (between_ns > kMostBetweenLooksNs)
    for (auto& [rank, stop] : stops_) stop.seen_ns += between_ns;
  std::vector<StoppedRank> found;
  for (auto entry = stops_.begin(); entry != stops_.end();) {
    const Stop& stop = entry->second;
    const bool goes_on = std::none_of(ranks.begin(), ranks.end(), [&](const SeenState& one) {
      return one.rank == entry->first && is_stopped(one.state);
    });
    if (goes_on && stop.told)
      found.push_back({StoppedRank::What::ended, entry->first, stop.state, now_ns - stop.seen_ns});
    entry = goes_on ? stops_.erase(entry) : std::next(entry);
  }
  for (const SeenState& one : ranks) {
    if (!is_stopped(one.state)) continue;
    Stop& stop = stops_.try_emplace(one.rank, Stop{.state = one.state, .seen_ns = now_ns}).first->second;
    stop.state = one.state;
    const int64_t stopped_ns = now_ns - stop.seen_ns;
    if (++stop.num_looks >= kLooksToTell && !stop.told) {
      stop.told = true;
      found.push_back({StoppedRank::What::began, one.rank, one.state, stopped_ns});
    }
    if (one.state == 'T' && stop.told && !stop.told_limit && stopped_ns >= limit_ns()) {
      stop.told_limit = true;
      found.push_back({StoppedRank::What::too_long, one.rank, one.state, stopped_ns});
    }
  }
  return found;
}

}  // namespace athanor::launch::diagnosis
