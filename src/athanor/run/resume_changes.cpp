#include "athanor/run/resume_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/human.h"
#include "athanor/config/phases.h"
#include "athanor/config/print.h"
#include "athanor/engine/setup.h"

namespace athanor::run {
namespace {

// Whether every process determines this setting itself (from train.init_from, or by the recompute budget), so that a
// difference is no change by the user.
bool is_found_anew(const Config& now, const std::string& key) {
  const auto origin = now.origins.find(key);
  const bool of_source = origin != now.origins.end() && origin->second.kind == Origin::Kind::source;
  return of_source || (key == "parallel.recompute" && now.parallel.recompute_budget > 0);
}

std::string one_line(const Config& config, const std::string& key) {
  if (key != "data.channels") return setting_text(config, key);
  std::string paths;
  for (const ChannelConfig& channel : config.data.channels)
    paths += fmt::format("{}{} = {}", paths.empty() ? "" : ", ", channel.name, channel.path);
  return paths;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Text for the first "key=value" that differs between two lines: "channel 'en': the weight changed from 0.5 to 1".
std::string line_change(const std::string& then, const std::string& now) {
  const auto before = split(then, ' '), after = split(now, ' ');
  std::string subject;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    const size_t equals = before[i].find('=');
    if (before[i] == after[i] && equals == std::string::npos) subject += (i == 0 ? "" : " ") + before[i];
    if (before[i] == after[i]) continue;
    if (equals == std::string::npos || before[i].substr(0, equals) != after[i].substr(0, equals)) break;
    const std::string name = before[i].substr(0, equals);
    return fmt::format("{} the {} changed from {} to {}", subject,
                       name == "tokenizer" || name == "content" ? name + "'s hash" : name,
                       before[i].substr(equals + 1, 16), after[i].substr(equals + 1, 16));
  }
  const auto has_own = [](const std::string& line) {
    return line.find(" valid_content=") != std::string::npos;
  };
  if (has_own(then) != has_own(now))
    return fmt::format("{} the valid_path was {}", subject, has_own(now) ? "added" : "removed");
  return fmt::format("data: changed from '{}' to '{}'", then, now);
}

std::optional<PhaseConfig> phase_at(const Config& config, int64_t step) {
  for (const PhaseConfig& phase : phases_of(config))
    if (phase.first_step <= step && step <= phase.last_step) return phase;
  return std::nullopt;
}

// What the order of sums depends on beside the settings that a run is bound to.
std::string layout_text(const Config& config) {
  return fmt::format("tp {}, cp {}, ep {}, micro_batch_size {}", config.parallel.tp, config.parallel.cp,
                     config.parallel.ep, config.train.micro_batch_size);
}

}  // namespace

std::optional<LayoutChange> layout_change(const Config& then, const Config& now, int64_t step) {
  const auto before = phase_at(then, step), after = phase_at(now, step);
  if (!before || !after || after->last_step == step) return std::nullopt;
  LayoutChange change{layout_text(before->config), layout_text(after->config)};
  return change.from == change.to ? std::nullopt : std::optional(std::move(change));
}

std::string data_change(const std::string& then, const std::string& now) {
  const auto before = split(then, '\n'), after = split(now, '\n');
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    if (before[i] != after[i]) return line_change(before[i], after[i]);
  return "data.channels: their number changed";
}

std::vector<std::string> resume_changes(const Config& then, const Config& now, int64_t step) {
  std::vector<std::string> lines;
  for (const std::string& key : different_keys(then, now))
    if (!is_found_anew(now, key))
      lines.push_back(printable(fmt::format("changed since step {}: {} {} -> {}", step, key,
                                            one_line(then, key), one_line(now, key))));
  const double before = lr_schedule(then).at(step + 1), after = lr_schedule(now).at(step + 1);
  if (before != after && step < now.train.steps)
    lines.push_back(fmt::format("the learning rate of step {} is {:.3g} now; it would have been {:.3g}",
                                step + 1, after, before));
  return lines;
}

}  // namespace athanor::run
