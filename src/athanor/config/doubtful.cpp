#include "athanor/config/doubtful.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/config/effects.h"
#include "athanor/masks/pattern.h"

namespace athanor::config {

std::vector<std::string> doubtful_settings(const Config& config) {
  const TrainConfig& t = config.train;
  const ScheduleConfig& s = config.schedule;
  std::vector<std::string> lines;
  const int64_t steps = s.steps > 0 ? s.steps : t.steps;
  if (s.warmup_steps >= steps && steps > 1)
    lines.push_back(
        fmt::format("schedule.warmup_steps = {} is not below {}: the learning rate only rises, to {:.3g} "
                    "of optimizer.lr = {:g}",
                    s.warmup_steps,
                    steps == t.steps ? fmt::format("train.steps = {}", steps)
                                     : fmt::format("the {} steps of the schedule", steps),
                    static_cast<double>(steps) / static_cast<double>(s.warmup_steps), config.optimizer.lr));
  if (config.optimizer.name == "adamw" && config.optimizer.lr >= 0.1)
    lines.push_back(
        fmt::format("optimizer.lr = {:g} is far above what adamw trains with: 1e-4 to 1e-2 is usual",
                    config.optimizer.lr));
  if (!has_validation(config))
    lines.push_back("data.valid_fraction = 0: nothing is evaluated, so no validation loss will be known");
  else if (const auto origin = config.origins.find("train.eval_every");
           t.eval_every > t.steps && origin != config.origins.end() && origin->second.by_user())
    lines.push_back(fmt::format(
        "train.eval_every = {} is above train.steps = {}: nothing is evaluated before the last step",
        t.eval_every, t.steps));
  if (config.parallel.recompute_budget > 0 && config.parallel.recompute != "none")
    lines.push_back(
        fmt::format("parallel.recompute = \"{}\" is replaced by what parallel.recompute_budget picks",
                    config.parallel.recompute));
  if (config.data.packing == "best-fit" && !config.data.document_mask)
    lines.push_back(
        "data.packing = \"best-fit\" without data.document_mask: documents that share a sequence see each "
        "other");
  try {
    const ModelConfig& m = config.model;
    if (m.attention_pattern != (m.is_encoder() ? "full" : "causal"))
      AttentionPattern::parse(m.attention_pattern)
          .check_fits(
              {.length = config.data.seq_len, .layers = m.num_hidden_layers, .heads = m.num_attention_heads});
  } catch (const ConfigError& error) {
    lines.push_back(fmt::format("model.attention_pattern is wider than data.seq_len = {}: {}",
                                config.data.seq_len, error.what()));
  }
  return lines;
}

}  // namespace athanor::config
