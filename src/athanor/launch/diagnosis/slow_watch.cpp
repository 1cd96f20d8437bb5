#include "athanor/launch/diagnosis/slow_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "athanor/base/human.h"
#include "athanor/base/median.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr int kFirstRows = 2;       // of a segment: memory is touched for the first time
constexpr size_t kMostRows = 1024;  // of which a rank has not told
constexpr size_t kLeastBlocks = 2;  // before which nothing is usual
constexpr size_t kMostBlocks = 61;  // half a minute of fast steps
// Law 8: lateness is told after so many steps; more where processors are shared.
constexpr double kSteps = 3, kSharedSteps = 10;
constexpr double kFactorOfBlock = 1.3;  // of one block; options_.factor is of all together
constexpr double kLeastShareOfWait = 0.5, kLeastShareOfDelay = 0.5;
constexpr double kRecoveredNs = 1e9;

double median_of_others(const std::vector<double>& values, size_t without) {
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(without));
  return median(std::move(others));
}

}  // namespace

std::string sentence_of(const SlowRank& found, int first_rank) {
  const int rank = first_rank + found.rank;
  if (found.what == SlowRank::What::ended && found.of_peers)
    return fmt::format("rank {} works as fast as ranks with the same work, after {}", rank,
                       human_seconds(static_cast<double>(found.slow_ns) * 1e-9));
  if (found.what == SlowRank::What::ended)
    return fmt::format("rank {} works as fast again as before step {}, after {}", rank, found.since_step,
                       human_seconds(static_cast<double>(found.slow_ns) * 1e-9));
  return fmt::format(
      "rank {} is slow: it works {:.1f} times as long on a step as {}, and the others wait for it {:.0f} % "
      "of "
      "the time{}",
      rank, found.factor,
      found.of_peers ? "ranks with the same work" : fmt::format("before step {}", found.since_step),
      100 * found.waiting_share, found.is_delayed ? "; other processes use its processors" : "");
}

bool SlowWatch::Pace::is_slow(double least) const {
  return factor >= least * others && waiting_ns >= kLeastShareOfWait * longer_ns;
}

void SlowWatch::Pace::add(const Pace& other, double weight) {
  factor += other.factor * weight;
  others += other.others * weight;
  waiting_ns += other.waiting_ns * weight;
  longer_ns += other.longer_ns * weight;
  delayed_ns += other.delayed_ns * weight;
  of_peers = other.of_peers;
}

void SlowWatch::formed(int num_ranks) {
  *this = SlowWatch(options_);
  num_ranks_ = num_ranks;
}

// The words of ranks may be read in another order than they were said.
void SlowWatch::segment_begins(int rank, int64_t work) {
  works_[{++segments_[rank], rank}] = work;
}

void SlowWatch::delayed(int rank, int64_t all_ns) {
  delays_[rank] = all_ns;
}

std::vector<SlowRank> SlowWatch::progress(int rank, const control::Progress& progress) {
  if (num_ranks_ < 2 || rank >= num_ranks_ || progress.kind != control::ProgressKind::step) return {};
  const std::pair<int64_t, int64_t> place = {segments_[rank], progress.step};
  if (place <= newest_) return {};  // said again, when the rank goes back to steps from something else
  Row& row = rows_.try_emplace(place, static_cast<size_t>(num_ranks_)).first->second;
  row[static_cast<size_t>(rank)] = {.busy_ns = progress.busy_ns, .waited_ns = progress.waited_ns};
  const bool is_whole = std::all_of(row.begin(), row.end(), [](const Sums& of) { return of.busy_ns >= 0; });
  if (!is_whole) {
    if (rows_.size() > kMostRows) rows_.erase(rows_.begin());
    return {};
  }
  Row whole = std::move(row);
  for (const auto& [delayed, ns] : delays_)
    if (delayed < num_ranks_) whole[static_cast<size_t>(delayed)].delayed_ns = ns;
  rows_.erase(rows_.begin(), rows_.upper_bound(place));
  if (std::exchange(newest_, place).first != place.first) {
    num_rows_ = 0;
    works_.erase(works_.begin(), works_.lower_bound({place.first, 0}));
    learned_.clear();
    recent_.clear();
    told_.clear();
  }
  return add(progress.step, std::move(whole));
}

std::vector<SlowRank> SlowWatch::add(int64_t step, Row row) {
  if (++num_rows_ <= kFirstRows) {
    begun_ = std::move(row);
    begun_step_ = step;
    return {};
  }
  Block block{.ranks = {}, .first_step = begun_step_ + 1, .last_step = step};
  for (size_t rank = 0; rank < row.size(); ++rank) {
    const auto passed = [&](int64_t Sums::*sum) {
      return static_cast<double>(std::max<int64_t>(row[rank].*sum - begun_[rank].*sum, 0));
    };
    const Work all{passed(&Sums::busy_ns), passed(&Sums::waited_ns), passed(&Sums::delayed_ns)};
    block.wall_ns = std::max(block.wall_ns, all.busy_ns + all.waited_ns);
    block.ranks.push_back({all.busy_ns / block.num_steps(), all.waited_ns / block.num_steps(),
                           all.delayed_ns / block.num_steps()});
  }
  if (block.wall_ns < static_cast<double>(options_.block_ns)) return {};
  begun_ = std::move(row);
  begun_step_ = step;
  return close(std::move(block));
}

std::vector<SlowWatch::Work> SlowWatch::usual_of_each() const {
  std::vector<Work> usual;
  for (size_t rank = 0; rank < static_cast<size_t>(num_ranks_); ++rank) {
    const auto middle = [&](double Work::*what) {
      std::vector<double> values;
      for (const Block& block : learned_) values.push_back(block.ranks[rank].*what);
      return median(std::move(values));
    };
    usual.push_back(
        {std::max(middle(&Work::busy_ns), 1.0), middle(&Work::waited_ns), middle(&Work::delayed_ns)});
  }
  return usual;
}

// Of a rank that was slow in all of its past what is usual of those with the same work; the others have waited for it.
std::vector<SlowWatch::Work> SlowWatch::usual() const {
  const std::vector<Work> own = usual_of_each();
  const auto work_of = [&](size_t rank) {
    const auto work = works_.find({newest_.first, static_cast<int>(rank)});
    return work == works_.end() ? -1 : work->second;
  };
  std::vector<Work> usual = own;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    std::vector<double> busy_ns, delayed_ns;  // of its peers
    for (size_t other = 0; other < own.size(); ++other) {
      if (other == rank || work_of(rank) < 0 || work_of(other) != work_of(rank)) continue;
      busy_ns.push_back(own[other].busy_ns);
      delayed_ns.push_back(own[other].delayed_ns);
    }
    if (busy_ns.empty()) continue;
    const double peers_ns = median(std::move(busy_ns));
    if (own[rank].busy_ns < kFactorOfBlock * peers_ns) continue;
    usual[rank].busy_ns = peers_ns;
    usual[rank].delayed_ns = std::min(own[rank].delayed_ns, median(std::move(delayed_ns)));
    usual[rank].of_peers = true;
    for (size_t other = 0; other < own.size(); ++other)
      if (other != rank)
        usual[other].waited_ns = std::min(usual[other].waited_ns,
                                          std::max(own[other].waited_ns - own[rank].busy_ns + peers_ns, 0.0));
  }
  return usual;
}

std::vector<SlowWatch::Pace> SlowWatch::paces_of(const Block& block) const {
  const std::vector<Work> usual = this->usual();
  std::vector<double> factors, waits_ns;  // of what is usual; above it
  for (size_t rank = 0; rank < usual.size(); ++rank) {
    factors.push_back(block.ranks[rank].busy_ns / usual[rank].busy_ns);
    waits_ns.push_back(block.ranks[rank].waited_ns - usual[rank].waited_ns);
  }
  std::vector<Pace> paces;
  for (size_t rank = 0; rank < usual.size(); ++rank) {
    const double others = std::max(median_of_others(factors, rank), 1.0);
    paces.push_back({.factor = factors[rank],
                     .others = others,
                     .waiting_ns = median_of_others(waits_ns, rank),
                     .longer_ns = usual[rank].busy_ns * (factors[rank] - others),
                     .delayed_ns = block.ranks[rank].delayed_ns - usual[rank].delayed_ns,
                     .of_peers = usual[rank].of_peers});
  }
  return paces;
}

std::vector<SlowRank> SlowWatch::close(Block block) {
  const bool is_first = learned_.size() < kLeastBlocks;
  if (is_first) {
    block.is_learned = true;
    learned_.push_back(block);
    if (learned_.size() < kLeastBlocks) return {};
  }
  std::vector<double> steps_ns;
  for (const Block& one : learned_) steps_ns.push_back(one.step_ns());
  const double step_ns = median(std::move(steps_ns));
  const double limit_ns = std::max(static_cast<double>(options_.limit_ns), kSteps * step_ns);
  const double shared_ns = std::max(static_cast<double>(options_.shared_limit_ns), kSharedSteps * step_ns);
  if (is_first)
    recent_ = learned_;
  else
    recent_.push_back(std::move(block));
  for (Block& one : recent_)
    if (one.paces.empty()) one.paces = paces_of(one);
  std::vector<SlowRank> found;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (told_.contains(rank)) {
      if (const auto end = follow(rank, recent_.back())) found.push_back(*end);
      continue;
    }
    auto slow = slow_for(rank, limit_ns);
    if (slow && slow->is_delayed) slow = slow_for(rank, shared_ns);
    if (!slow) continue;
    told_[rank] = {.since_step = slow->since_step,
                   .slow_ns = static_cast<double>(slow->slow_ns),
                   .of_peers = slow->of_peers};
    found.push_back(*slow);
  }
  learn(limit_ns);
  double recent_ns = 0;
  for (const Block& one : recent_) recent_ns += one.wall_ns;
  for (; recent_ns - recent_.front().wall_ns >= shared_ns; recent_.pop_front())
    recent_ns -= recent_.front().wall_ns;
  return found;
}

// Whether it was slow over the latest blocks, which have to make up the limit.
std::optional<SlowRank> SlowWatch::slow_for(int rank, double limit_ns) const {
  const auto r = static_cast<size_t>(rank);
  double wall_ns = 0, num_steps = 0;
  int64_t num_blocks = 0, num_slow = 0;
  auto first = recent_.end();
  Pace all{.factor = 0, .others = 0};
  while (first != recent_.begin() && (wall_ns < limit_ns || num_blocks < 2)) {
    --first;
    ++num_blocks;
    num_slow += first->paces[r].is_slow(kFactorOfBlock) ? 1 : 0;
    wall_ns += first->wall_ns;
    num_steps += first->num_steps();
    all.add(first->paces[r], first->num_steps());
  }
  if (wall_ns < limit_ns || num_blocks < 2 || 4 * num_slow < 3 * num_blocks ||
      !all.is_slow(options_.factor) || !first->paces[r].is_slow(kFactorOfBlock))
    return std::nullopt;
  return SlowRank{.what = SlowRank::What::began,
                  .rank = rank,
                  .factor = all.factor / num_steps,
                  .waiting_share = std::clamp(all.waiting_ns / wall_ns, 0.0, 1.0),
                  .since_step = first->first_step,
                  .step = recent_.back().last_step,
                  .slow_ns = static_cast<int64_t>(wall_ns),
                  .is_delayed = all.delayed_ns >= kLeastShareOfDelay * all.longer_ns,
                  .of_peers = all.of_peers};
}

// What is usual is learned from blocks that are over the limit old, and in which no rank may be slow.
void SlowWatch::learn(double limit_ns) {
  double later_ns = 0;
  for (auto block = recent_.rbegin(); block != recent_.rend(); later_ns += block->wall_ns, ++block) {
    if (later_ns < limit_ns || std::exchange(block->is_learned, true)) continue;
    const auto may_be_slow = [](const Pace& pace) { return pace.is_slow(kFactorOfBlock); };
    if (told_.empty() && std::none_of(block->paces.begin(), block->paces.end(), may_be_slow))
      learned_.push_back(*block);
  }
  while (learned_.size() > kMostBlocks) learned_.pop_front();
}

// Of a rank that was told: its end, if this is it.
std::optional<SlowRank> SlowWatch::follow(int rank, const Block& block) {
  Told& told = told_.at(rank);
  const Pace& pace = block.paces[static_cast<size_t>(rank)];
  if (pace.is_slow(options_.recovered_factor)) {
    told.slow_ns += block.wall_ns + std::exchange(told.fast_ns, 0.0);
    return std::nullopt;
  }
  told.fast_ns += block.wall_ns;
  if (told.fast_ns < kRecoveredNs) return std::nullopt;
  const SlowRank end{.what = SlowRank::What::ended,
                     .rank = rank,
                     .factor = pace.factor,
                     .since_step = told.since_step,
                     .step = block.last_step,
                     .slow_ns = static_cast<int64_t>(told.slow_ns),
                     .of_peers = told.of_peers};
  told_.erase(rank);
  return end;
}

}  // namespace athanor::launch::diagnosis
