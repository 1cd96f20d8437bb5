#include "athanor/launch/warm_up/rounds.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "athanor/base/median.h"

namespace athanor::launch::warm_up {
namespace {

using Figure = double control::WarmedUp::*;

// What ranks are compared by.
struct Compared {
  Figure figure;
  const char* does;
  const char* unit;
};
constexpr std::array<Compared, 2> kCompared = {
    {{&control::WarmedUp::matrix_gflop_per_s, "multiplies matrices", "GFLOP/s"},
     {&control::WarmedUp::memory_gb_per_s, "copies memory", "GB/s"}}};

std::vector<double> of_all(const std::vector<control::WarmedUp>& ranks, Figure figure) {
  std::vector<double> values;
  for (const control::WarmedUp& one : ranks) values.push_back(one.*figure);
  return values;
}

// "31 to 64 GFLOP/s"; "": nobody has measured it.
std::string range_of(const char* what, std::vector<double> values, const char* unit) {
  std::erase_if(values, [](double value) { return value <= 0; });
  if (values.empty()) return "";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{} {:.3g} to {:.3g} {}", what, *least, *most, unit);
}

}  // namespace

std::string Rounds::name(size_t rank) const {
  return fmt::format("rank {}", options_.first_rank + static_cast<int>(rank));
}

void Rounds::take(int worker, const control::WarmedUp& measured) {
  if (is_measuring() && measured.round == number_) taken_[worker] = measured;
}

Rounds::Next Rounds::next(const std::vector<int>& workers, int64_t now_ns) {
  if (!refusal_.empty()) return Next::refused;
  if (is_over_) return Next::over;
  const bool is_new = number_ < 0 || workers != workers_;
  if (!is_new) {
    const bool is_late = now_ns >= until_ns_;
    if (taken_.size() < workers.size() && !is_late) return Next::wait;
    look_for_refusal();
    if (!refusal_.empty()) return Next::refused;
    ++num_whole_;
    for (size_t rank = 0; rank < workers.size(); ++rank)
      if (const auto found = taken_.find(workers[rank]); found != taken_.end())
        for (const Figure figure : {&control::WarmedUp::matrix_gflop_per_s,
                                    &control::WarmedUp::memory_gb_per_s, &control::WarmedUp::disk_mb_per_s}) {
          const double measured = found->second.*figure;
          double& worst = worst_[rank].*figure;
          best_[rank].*figure = std::max(best_[rank].*figure, measured);
          worst = worst < 0 ? measured : std::min(worst, measured);
        }
    std::vector<Finding> slow = is_late ? std::vector<Finding>() : slow_ranks();
    if (slow.empty() || num_whole_ >= kMostRounds) {
      conclude(std::move(slow));
      return Next::over;
    }
  } else {
    if (number_ < 0) began_ns_ = now_ns;
    workers_ = workers;
    best_.assign(workers.size(), {});
    worst_.assign(workers.size(), {});
    num_whole_ = 0;
  }
  taken_.clear();
  ++number_;
  until_ns_ = now_ns + options_.limit_ns;
  return Next::measure;
}

void Rounds::look_for_refusal() {
  int others = -1;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const auto found = taken_.find(workers_[rank]);
    if (found == taken_.end() || found->second.refusal.empty()) continue;
    if (++others > 0) continue;
    refusal_ = fmt::format("{}: {}", name(rank), found->second.refusal);
    hint_ = found->second.hint;
  }
  if (others > 0) refusal_ += fmt::format(" (and so {} other rank{})", others, others == 1 ? "" : "s");
}

std::vector<Finding> Rounds::slow_ranks() const {
  std::vector<Finding> slow;
  for (const Compared& compared : kCompared) {
    const std::vector<double> values = of_all(best_, compared.figure);
    const std::vector<double> worst = of_all(worst_, compared.figure);
    for (size_t rank = 0; rank < values.size(); ++rank) {
      std::vector<double> others;
      for (size_t other = 0; other < values.size(); ++other)
        if (other != rank && worst[other] > 0) others.push_back(worst[other]);
      if (others.empty() || values[rank] <= 0) continue;
      const double usual = median(std::move(others));
      if (values[rank] * kSlowFactor >= usual) continue;
      slow.push_back({.rank = static_cast<int>(rank),
                      .sentence = fmt::format("{} {} at {:.2f} of the others' speed ({:.3g} of {:.3g} {}), "
                                              "before the first step: the others will wait for it",
                                              name(rank), compared.does, values[rank] / usual, values[rank],
                                              usual, compared.unit)});
    }
  }
  return slow;
}

// Ranks that say the same are put together.
void Rounds::conclude(std::vector<Finding> slow) {
  is_over_ = true;
  std::map<std::string, std::vector<size_t>> warned;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const auto found = taken_.find(workers_[rank]);
    if (found == taken_.end())
      findings_.push_back(
          {.rank = static_cast<int>(rank),
           .sentence = fmt::format("{} has not answered the warm-up within {:.3g} s: the job "
                                   "goes on without its figures",
                                   name(rank), static_cast<double>(options_.limit_ns) * 1e-9)});
    else if (!found->second.warning.empty())
      warned[found->second.warning].push_back(rank);
  }
  for (const auto& [warning, ranks] : warned)
    findings_.push_back(
        {.rank = static_cast<int>(ranks.front()),
         .sentence =
             fmt::format("{}{}: {}", name(ranks.front()),
                         ranks.size() == 1 ? "" : fmt::format(" (and {} more)", ranks.size() - 1), warning)});
  findings_.insert(findings_.end(), slow.begin(), slow.end());
  std::vector<std::string> ranges;
  for (std::string range :
       {range_of("matrix products", of_all(best_, &control::WarmedUp::matrix_gflop_per_s), "GFLOP/s"),
        range_of("memory", of_all(best_, &control::WarmedUp::memory_gb_per_s), "GB/s"),
        range_of("disk", of_all(best_, &control::WarmedUp::disk_mb_per_s), "MB/s")})
    if (!range.empty()) ranges.push_back(std::move(range));
  if (!ranges.empty())
    findings_.push_back({.sentence = fmt::format("{}", fmt::join(ranges, ", ")), .is_news = false});
}

}  // namespace athanor::launch::warm_up
