#include "athanor/observe/log_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/human.h"

namespace athanor {
namespace {

std::string beginning(const char* what, int64_t step, int64_t total, double loss,
                      const ChannelValues& channels) {
  const size_t digits = std::max<size_t>(5, fmt::formatted_size("{}", total));
  std::string text = fmt::format("{} {:0{}}/{} | loss {:.4f}", what, step, digits, total, loss);
  for (size_t c = 0; c < channels.size(); ++c)
    text += fmt::format("{}{} {:.2f}", c == 0 ? " | " : " ", channels[c].first, channels[c].second);
  return text;
}

}  // namespace

std::string step_line(const StepMetrics& m, int64_t total_steps) {
  const double rate = m.tokens_per_second >= 0 ? m.tokens_per_second : 0;
  std::string text = beginning("step", m.step, total_steps, m.loss, m.channel_loss);
  text += fmt::format(" | norm {:.2f} | lr {:.1e} | {} tok/s | mfu {:.1f} %", m.grad_norm, m.lr,
                      rate < 1e15 ? with_commas(std::llround(rate)) : human_count(rate), 100 * m.mfu);
  if (m.experts) text += fmt::format(" | load {:.2f}", m.experts->max_over_mean);
  return text + " | " + human_seconds(m.step_seconds);
}

std::string validation_line(const StepMetrics& m, int64_t total_steps) {
  return beginning("valid", m.step, total_steps, m.valid_loss.value_or(0), m.valid_channel_loss);
}

}  // namespace athanor
