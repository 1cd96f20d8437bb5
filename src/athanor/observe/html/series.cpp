#include "athanor/observe/html/series.h"

#include <cmath>
#include <limits>
#include <utility>

namespace athanor::observe::html {
namespace {

constexpr int kFailureColor = 2, kColors = 8;

ChartLine line_of(const char* name, int color, const Thinned& series) {
  return {.name = name, .color = color, .points = series.points()};
}

}  // namespace

Series::Channel& Series::channel(const std::string& name) {
  for (Channel& channel : channels_)
    if (channel.name == name) return channel;
  return channels_.emplace_back(Channel{name, {}, {}});
}

void Series::take(const StepMetrics& m) {
  const auto step = static_cast<double>(m.step);
  if (m.valid_loss) {
    valid_.add(step, *m.valid_loss);
    for (const auto& [name, loss] : m.valid_channel_loss) channel(name).valid.add(step, loss);
  }
  if (m.step <= 0) return;
  ++num_steps_;
  last_step_ = m.step;
  tokens_ = m.tokens;
  loss_.add(step, m.loss);
  for (const auto& [name, loss] : m.channel_loss) channel(name).train.add(step, loss);
  rate_.add(step, m.tokens_per_second);
  mfu_.add(step, 100 * m.mfu);
  step_seconds_.add(step, m.step_seconds);
  data_seconds_.add(step, m.data_seconds);
  comm_seconds_.add(step, m.comm_seconds);
  grad_norm_.add(step, m.grad_norm);
  lr_.add(step, m.lr);
  ranks_.add(step, static_cast<double>(m.world_size));
  peak_.add(step, static_cast<double>(m.peak_bytes) / (1 << 20));
}

void Series::take_abandoned(const StepMetrics& m) {
  const auto step = static_cast<double>(m.step);
  if (num_abandoned_++ > 0 && m.step <= last_abandoned_)
    abandoned_.add(step, std::numeric_limits<double>::quiet_NaN());
  abandoned_.add(step, m.loss);
  last_abandoned_ = m.step;
}

std::vector<Chart> Series::charts(const std::vector<ChartMark>& marks) const {
  const auto one = [&](const char* title, std::vector<ChartLine> lines, bool from_zero) {
    return Chart{.title = title, .from_zero = from_zero, .lines = std::move(lines), .marks = marks};
  };
  std::vector<ChartLine> losses = {line_of("validation", 1, valid_), line_of("train", 0, loss_)};
  losses[0].is_dots = true;
  if (valid_.is_empty()) losses.erase(losses.begin());
  if (num_abandoned_ > 0) {
    losses.push_back(line_of("done in vain", kFailureColor, abandoned_));
    losses.back().is_faint = true;
  }
  std::vector<Chart> all = {one("Loss", losses, false)};
  std::vector<ChartLine> train, valid;
  for (size_t i = 0; i < channels_.size(); ++i) {
    const int color = 1 + static_cast<int>(i % kColors);
    train.push_back(line_of(channels_[i].name.c_str(), color, channels_[i].train));
    if (channels_[i].valid.is_empty()) continue;
    valid.push_back(line_of(channels_[i].name.c_str(), color, channels_[i].valid));
    valid.back().is_dots = true;
  }
  if (train.size() > 1) all.push_back(one("Training loss of each channel", train, false));
  if (valid.size() > 1) all.push_back(one("Validation loss of each channel", valid, false));
  all.push_back(one("Tokens per second", {line_of("tokens/s", 1, rate_)}, true));
  all.push_back(one("MFU in per cent", {line_of("MFU %", 5, mfu_)}, true));
  all.push_back(one("Seconds of a step",
                    {line_of("step", 0, step_seconds_), line_of("communication", 4, comm_seconds_),
                     line_of("data", 3, data_seconds_)},
                    true));
  all.push_back(one("Gradient norm before clipping", {line_of("norm", 8, grad_norm_)}, true));
  all.push_back(one("Learning rate", {line_of("rate", 3, lr_)}, true));
  all.push_back(one("Peak memory of rank 0 in MiB", {line_of("MiB", 6, peak_)}, true));
  all.push_back(one("Ranks", {line_of("ranks", 7, ranks_)}, true));
  return all;
}

}  // namespace athanor::observe::html
