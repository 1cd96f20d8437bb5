#include "athanor/launch/diagnosis/memory_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "athanor/base/human.h"
#include "athanor/base/median.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr size_t kLeastSamples = 48;
constexpr double kLeastOfQuarter = 0.5;  // of the slope of all
constexpr double kOfNoise = 4;           // the growth, of the median distance from the line

// Bytes a step. Of samples with steps that rise.
double median_slope(std::span<const MemorySample> samples) {
  std::vector<double> slopes;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t j = i + 1; j < samples.size(); ++j)
      slopes.push_back(static_cast<double>(samples[j].bytes - samples[i].bytes) /
                       static_cast<double>(samples[j].step - samples[i].step));
  return median(std::move(slopes));
}

// The median distance from the line with this slope through their middle.
double noise_of(std::span<const MemorySample> samples, double slope) {
  std::vector<double> heights;
  for (const MemorySample& one : samples)
    heights.push_back(static_cast<double>(one.bytes) - slope * static_cast<double>(one.step));
  const double height = median(heights);
  for (double& each : heights) each = std::abs(each - height);
  return median(std::move(heights));
}

}  // namespace

std::string sentence_of(const MemoryGrowth& found, int first_rank, double available_bytes, int num_growing) {
  std::string text = fmt::format("rank {}: memory grows by {} a step (from step {} to {} by {}, to {})",
                                 first_rank + found.rank, human_bytes(found.bytes_per_step), found.first_step,
                                 found.last_step, human_bytes(found.grown_bytes()),
                                 human_bytes(static_cast<double>(found.bytes)));
  if (available_bytes <= 0 || found.steps_per_second <= 0) return text;
  const double steps = available_bytes / (found.bytes_per_step * num_growing);
  return text + fmt::format("; what is left is used up in {}, at step {:.0f}",
                            human_seconds(steps / found.steps_per_second),
                            static_cast<double>(found.last_step) + steps);
}

void MemoryWatch::begin() {
  ranks_.clear();
}

void MemoryWatch::forget(int rank) {
  ranks_.erase(rank);
}

int MemoryWatch::num_told() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.is_told; }));
}

std::optional<MemoryGrowth> MemoryWatch::sample(int rank, const MemorySample& sample,
                                                double available_bytes) {
  Rank& one = ranks_[rank];
  if (one.first_step < 0) {
    one.first_step = sample.step;
    one.first_ns = sample.at_ns;
  }
  if (sample.bytes <= 0 || sample.step <= one.last_step ||
      sample.step - one.first_step < options_.first_steps || sample.at_ns - one.first_ns < options_.first_ns)
    return std::nullopt;
  one.last_step = sample.step;
  for (size_t level = 0; level < kLevels; ++level) {
    const bool goes_on = take(one, level, sample);
    if (auto found = one.is_told ? std::nullopt : growth_in(one.windows[level], available_bytes)) {
      one.is_told = true;
      found->rank = rank;
      return found;
    }
    if (!goes_on) break;
  }
  return std::nullopt;
}

// Whether the next level takes it, too.
bool MemoryWatch::take(Rank& rank, size_t level, const MemorySample& sample) {
  std::vector<MemorySample>& window = rank.windows[level];
  window.push_back(sample);
  if (window.size() > kSamples) window.erase(window.begin());
  return rank.num_taken[level]++ % kThinning == 0;
}

std::optional<MemoryGrowth> MemoryWatch::growth_in(const std::vector<MemorySample>& window,
                                                   double available_bytes) const {
  if (window.size() < kLeastSamples) return std::nullopt;
  const MemorySample &first = window.front(), &last = window.back();
  const auto num_steps = static_cast<double>(last.step - first.step);
  if (num_steps < static_cast<double>(options_.least_steps)) return std::nullopt;
  const std::span<const MemorySample> all(window);
  const double slope = median_slope(all), growth = slope * num_steps;
  if (slope < options_.least_bytes_per_step || growth < options_.least_bytes ||
      growth < options_.least_share * static_cast<double>(last.bytes) ||
      growth < kOfNoise * noise_of(all, slope) || available_bytes > options_.most_windows * growth)
    return std::nullopt;
  const size_t quarter = window.size() / 4;
  for (size_t i = 0; i < 4; ++i)
    if (median_slope(all.subspan(i * quarter, quarter)) < kLeastOfQuarter * slope) return std::nullopt;
  return MemoryGrowth{.bytes_per_step = slope,
                      .steps_per_second = num_steps / (static_cast<double>(last.at_ns - first.at_ns) * 1e-9),
                      .first_step = first.step,
                      .last_step = last.step,
                      .bytes = last.bytes};
}

}  // namespace athanor::launch::diagnosis
