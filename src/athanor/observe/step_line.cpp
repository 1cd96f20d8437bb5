#include "athanor/observe/step_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::observe {
namespace {

constexpr size_t kTrailCells = 20;

// Never wider than twelve columns.
std::string per_second(double tokens_per_second) {
  if (!(tokens_per_second >= 0)) return "? tok/s";
  if (tokens_per_second < 99999.5) return with_commas(std::lround(tokens_per_second)) + " tok/s";
  if (tokens_per_second < 999.5e3) return fmt::format("{:.0f} K tok/s", tokens_per_second / 1e3);
  return human_count(tokens_per_second) + " tok/s";
}

// How much busier than the mean the busiest expert is, and what was dropped.
std::string load_text(const ExpertMetrics& experts) {
  std::string text = fmt::format("{:.2f}", experts.max_over_mean);
  if (experts.drop_share > 0) text += fmt::format(" (drops {:.1f} %)", 100 * experts.drop_share);
  return text;
}

size_t num_digits(int64_t value) {
  return fmt::format("{}", value).size();
}

}  // namespace

std::string step_of_total(int64_t step, int64_t total_steps) {
  return fmt::format("{:0{}}/{}", step, num_digits(total_steps), total_steps);
}

std::string channel_text(const ChannelValues& channels) {
  std::string text;
  for (const auto& [name, loss] : channels)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : " ", name, loss);
  return text;
}

// Room for the values that nearly every run comes to is there from the first step on.
StepLine::StepLine(TerminalStyle style) : style_(style) {
  parts_[percent] = {"", "", kPlain, 4};
  parts_[loss] = {"loss ", "", kBold, 6};
  parts_[best] = {"best valid ", "", kGreen, 6};
  parts_[trail] = {"", "", kCyan, kTrailCells};
  parts_[channels] = {"", "", kPlain, 0};
  parts_[grad_norm] = {"grad norm ", "", kPlain, 4};
  parts_[lr] = {"lr ", "", kPlain, 7};
  parts_[load] = {"expert load ", "", kPlain, 4};
  parts_[rate] = {"", "", kPlain, 12};
  parts_[mfu] = {"mfu ", "", kPlain, 6};
  parts_[step_time] = {"step ", "", kPlain, 6};
  parts_[time] = {"", "", kBold, 16};
}

void StepLine::set(Index part, const std::string& value) {
  parts_[part].value = value;
  parts_[part].columns = std::max(parts_[part].columns, display_width(value));
}

void StepLine::add(const StepMetrics& m, int64_t total_steps, double elapsed_seconds) {
  constexpr double kMemory = 0.95;  // about the last twenty steps
  seconds_per_step_ =
      seconds_per_step_ == 0 ? m.step_seconds : kMemory * seconds_per_step_ + (1 - kMemory) * m.step_seconds;
  step_ = m.step;
  total_steps_ = total_steps;
  losses_.add(m.loss);
  for (const auto& channel : m.channel_loss) {
    const auto known = std::find_if(channel_loss_.begin(), channel_loss_.end(),
                                    [&](const auto& entry) { return entry.first == channel.first; });
    if (known == channel_loss_.end())
      channel_loss_.push_back(channel);
    else
      known->second = channel.second;
  }
  const double left = seconds_per_step_ * static_cast<double>(std::max<int64_t>(0, total_steps - m.step));
  const double share =
      total_steps > 0 ? std::min(1.0, static_cast<double>(m.step) / static_cast<double>(total_steps)) : 1.0;
  set(percent, fmt::format("{:.0f} %", std::floor(100 * share)));
  set(loss, fmt::format("{:.4f}", m.loss));
  set(channels, style_.shown(channel_text(channel_loss_)));
  set(grad_norm, fmt::format("{:.2f}", m.grad_norm));
  set(lr, fmt::format("{:.1e}", m.lr));
  if (m.experts) set(load, load_text(*m.experts));
  set(rate, per_second(m.tokens_per_second));
  if (m.mfu > 0) set(mfu, fmt::format("{:.1f} %", 100 * m.mfu));  // the first step's is not known yet
  set(step_time, style_.shown(human_seconds(m.step_seconds)));
  set(time, human_seconds(std::floor(elapsed_seconds)) + ", eta " + style_.shown(human_seconds(left)));
}

void StepLine::add_validation(double valid_loss) {
  if (!std::isfinite(valid_loss) || (best_ && *best_ <= valid_loss)) return;
  best_ = valid_loss;
  set(best, fmt::format("{:.4f}", valid_loss));
}

bool StepLine::fits(Index part, size_t room, size_t gap, size_t* used) const {
  const Part& p = parts_[part];
  if (p.value.empty() && part != trail) return false;
  const size_t columns = gap + display_width(p.label) + p.columns;
  if (*used + columns > room) return false;
  *used += columns;
  return true;
}

std::string StepLine::bar(size_t columns) const {
  constexpr std::array kByRank = {loss, time, step_time, rate, percent, channels,
                                  best, mfu,  grad_norm, lr,   load,    trail};
  constexpr size_t kShortestBar = 10, kLongestBar = 40, kGap = 2;
  const std::string counted = fmt::format(" {:>{}}/{} ", step_, num_digits(total_steps_), total_steps_);
  // The last column stays empty: writing it makes some terminals wrap.
  const size_t room = columns > 1 ? columns - 1 : 0;
  const size_t length = std::clamp<size_t>(columns > 40 ? (columns - 40) / 5 : 0, kShortestBar, kLongestBar);
  size_t used = counted.size() + length;
  if (used > room) return std::string(fit_columns(counted + parts_[percent].value, room));
  std::array<bool, count> shown{};
  for (const Index part : kByRank)
    if (part != trail || style_.utf8) shown[part] = fits(part, room, kGap, &used);
  const bool known = total_steps_ > 0 && step_ < total_steps_;
  const double done = known ? static_cast<double>(step_) / static_cast<double>(total_steps_) : 1;
  const auto filled = static_cast<size_t>(done * static_cast<double>(length));
  const size_t tip = filled < length ? 1 : 0;
  const Glyphs& g = style_.glyphs();
  std::string text = counted + style_.painted(kCyan, repeat_text(g.done, filled) + repeat_text(g.tip, tip)) +
                     style_.painted(kDim, repeat_text(g.todo, length - filled - tip));
  size_t owed = 0;  // spaces behind the last value, which nothing may follow
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!shown[i]) continue;
    const std::string value = i == trail ? sparkline(losses_.means(), kTrailCells) : parts_[i].value;
    text += std::string(owed + kGap, ' ') + style_.painted(kDim, parts_[i].label) +
            style_.painted(parts_[i].style, value);
    owed = parts_[i].columns - std::min(parts_[i].columns, display_width(value));
  }
  return text;
}

std::string StepLine::plain(size_t columns) const {
  constexpr std::array kByRank = {loss, time, step_time, rate, lr, channels, best, mfu, grad_norm, load};
  constexpr size_t kGap = 3;
  std::string text = "step " + step_of_total(step_, total_steps_);
  size_t used = text.size();
  std::array<bool, count> shown{};
  for (const Index part : kByRank) shown[part] = fits(part, columns, kGap, &used);
  for (size_t i = 0; i < parts_.size(); ++i)
    if (shown[i]) text += " | " + parts_[i].label + parts_[i].value;
  return text;
}

}  // namespace athanor::observe
