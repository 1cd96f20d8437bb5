#include "athanor/engine/update_probe.h"

#include <algorithm>

namespace athanor::engine {
namespace {

constexpr int64_t kSampled = 64;  // values of a parameter

}  // namespace

std::vector<float> UpdateProbe::sample() const {
  std::vector<float> values;
  for (const auto& param : model_.params()) {
    const int64_t all = param->range().count(), count = std::min(all, kSampled);
    if (count == 0 || param->is_state()) continue;
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(count));
    param->read_master((all - count) / 2, count, values.data() + at);
  }
  return values;
}

void UpdateProbe::before() {
  if (is_on_) before_ = sample();
}

void UpdateProbe::after() {
  none();
  if (!is_on_) return;
  const std::vector<float> now = sample();
  for (size_t i = 0; i < now.size(); ++i) {
    const double was = before_[i], change = static_cast<double>(now[i]) - was;
    update_squares_ += change * change;
    weight_squares_ += was * was;
  }
}

void UpdateProbe::none() {
  update_squares_ = weight_squares_ = 0.0;
}

}  // namespace athanor::engine
