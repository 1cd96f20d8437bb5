#include "athanor/observe/sparkline.h"

#include <algorithm>
#include <cmath>

namespace athanor::observe {

void Trail::add(double value) {
  constexpr size_t kMost = 256;
  if (!std::isfinite(value)) return;
  sum_ += value;
  if (++in_sum_ < each_) return;
  means_.push_back(sum_ / static_cast<double>(in_sum_));
  sum_ = 0;
  in_sum_ = 0;
  if (means_.size() < kMost) return;
  for (size_t i = 0; i < kMost / 2; ++i) means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
  means_.resize(kMost / 2);
  each_ *= 2;
}

std::vector<double> Trail::means() const {
  std::vector<double> all = means_;
  if (in_sum_ > 0) all.push_back(sum_ / static_cast<double>(in_sum_));
  return all;
}

std::string sparkline(std::span<const double> values, size_t cells) {
  constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  cells = std::min(cells, values.size());
  if (cells < 2) return "";
  std::vector<double> means;
  for (size_t cell = 0; cell < cells; ++cell) {
    const size_t first = cell * values.size() / cells, last = (cell + 1) * values.size() / cells;
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(last - first));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (const double mean : means) {
    const double share = *high > *low ? (mean - *low) / (*high - *low) : 0;
    text += kBlocks[std::min<size_t>(7, static_cast<size_t>(8 * share))];
  }
  return text;
}

}  // namespace athanor::observe
