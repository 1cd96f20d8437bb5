#include "athanor/run/doubtful_data.h"

#include <fmt/format.h>

#include "athanor/base/human.h"

namespace athanor::run {
namespace {

constexpr double kManyEpochs = 4.0;  // repeated text is worth nearly as much as new text up to here
constexpr double kLargeVocabulary = 1.25;
constexpr int64_t kStepsAbove = 20;

std::string epochs_text(const Config& config, const Dataset& data) {
  double weights = 0.0;
  for (const Channel& channel : data.channels) weights += channel.weight();
  const double drawn = static_cast<double>(config.train.steps) *
                       static_cast<double>(config.train.global_batch_size) *
                       static_cast<double>(config.data.seq_len);
  std::string text;
  for (const Channel& channel : data.channels) {
    if (channel.spool() != nullptr) continue;  // read once
    const double epochs =
        drawn * channel.weight() / weights / static_cast<double>(channel.num_train_tokens());
    if (epochs > kManyEpochs)
      text += fmt::format("{}{:.1f} of '{}' ({} tokens)", text.empty() ? "" : ", ", epochs, channel.name(),
                          human_count(static_cast<double>(channel.num_train_tokens())));
  }
  return text;
}

}  // namespace

std::vector<std::string> doubtful_data(const Config& config, const Dataset& data) {
  std::vector<std::string> lines;
  const auto origin = config.origins.find("model.vocab_size");
  const bool chosen = origin == config.origins.end() || origin->second.kind != Origin::Kind::source;
  if (data.tokenizer != nullptr && chosen) {
    const int64_t ids = data.tokenizer->vocab_size(), rows = config.model.vocab_size;
    const int64_t needed = (ids + 63) / 64 * 64;
    if (static_cast<double>(needed) * kLargeVocabulary < static_cast<double>(rows))
      lines.push_back(
          fmt::format("model.vocab_size = {} is far above the {} tokens of the tokenizer: {} rows of the "
                      "embedding are never used; model.vocab_size = {} would do",
                      with_commas(rows), with_commas(ids), with_commas(rows - ids), needed));
  }
  if (const std::string epochs = epochs_text(config, data); !epochs.empty())
    lines.push_back("the run takes more than four epochs: " + epochs +
                    "; more text, fewer steps or another weight would change that");
  return lines;
}

std::optional<std::string> LossWatch::after(int64_t step, double loss) {
  if (!first_) first_ = loss;
  above_ = loss > *first_ ? above_ + 1 : 0;
  if (above_ < kStepsAbove || said_) return std::nullopt;
  said_ = true;
  return fmt::format(
      "step {}: the loss has been above its first value, {:.4f}, for {} steps: a lower optimizer.lr or a "
      "longer "
      "schedule.warmup_steps may help",
      step, *first_, kStepsAbove);
}

}  // namespace athanor::run
