#include "apps/athanor/dataset/dataset_preview.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/athanor/data_settings.h"
#include "apps/athanor/loaded_tokenizer.h"
#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/config/validate.h"
#include "athanor/data/batch.h"
#include "athanor/data/dataset.h"
#include "athanor/observe/terminal_style.h"
#include "athanor/run/init_from.h"

namespace athanor::apps {
namespace {

// A token of a sequence and what the model has of it.
struct ShownToken {
  int32_t id = 0;
  std::string text;
  bool counts = false;  // as a target
};

// What lies together in a sequence: a whole one, or one document of several that are packed.
using ShownPart = std::vector<ShownToken>;

// Text of each token: what decoding one token more adds. A character of several tokens stands at its last one.
std::vector<std::string> texts_of(const Tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";
  std::string shown;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (tokenizer == nullptr) {
      texts.push_back(fmt::format("{} ", ids[i]));
      continue;
    }
    const std::string all = tokenizer->decode(std::span(ids).first(i + 1));
    const bool is_whole = i + 1 == ids.size() || !all.ends_with(kUnfinished);
    texts.push_back(is_whole && all.size() >= shown.size() ? all.substr(shown.size()) : "");
    if (is_whole) shown = all;
  }
  return texts;
}

ShownPart part_of(const Channel& channel, const Tokenizer* tokenizer, const Window& window) {
  std::vector<int32_t> ids(static_cast<size_t>(window.targets) + 1);
  channel.read(window.first, ids);
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  channel.mask_targets(window.first, targets);
  const std::vector<std::string> texts = texts_of(tokenizer, ids);
  ShownPart part;
  for (size_t i = 0; i < ids.size(); ++i)
    part.push_back({.id = ids[i], .text = texts[i], .counts = i > 0 && targets[i - 1] != kNoTarget});
  return part;
}

// Neighbours differ in colour; what does not count is dim. Without colour tokens are divided by bars, and what does not
// count stands in double brackets.
std::string drawn(const std::vector<ShownPart>& parts, const TerminalStyle& style) {
  std::string out;
  for (const ShownPart& part : parts) {
    bool odd = false, masked = false;
    for (size_t i = 0; i < part.size(); ++i) {
      std::string text = part[i].text;
      for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2))
        text.replace(at, 1, "\\n");
      text = style.shown(text);
      if (style.color) {
        const std::string colour = odd ? kCyan : kPlain;
        out += style.painted(part[i].counts ? colour.c_str() : odd ? "2;36" : kDim, text);
        odd = !odd;
        continue;
      }
      if (!part[i].counts && !masked) out += "[[";
      if (part[i].counts && masked) out += "]]";
      if (i > 0 && part[i].counts == !masked) out += "|";
      masked = !part[i].counts;
      out += text;
    }
    if (masked) out += "]]";
    out += "\n";
  }
  return out;
}

Json to_json(const std::vector<ShownPart>& parts) {
  Json all = Json::array();
  for (const ShownPart& part : parts) {
    Json tokens = Json::array();
    for (const ShownToken& token : part)
      tokens.push_back({{"id", token.id}, {"text", token.text}, {"counts", token.counts}});
    all.push_back(std::move(tokens));
  }
  return all;
}

struct PreviewCommand {
  std::string file, channel;
  std::vector<std::string> sets;
  int64_t step = 1, samples = 3;
  bool json = false;

  PhaseConfig phase_of(const Config& config) const {
    std::vector<PhaseConfig> phases = phases_of(config);
    for (PhaseConfig& phase : phases)
      if (step >= phase.first_step && step <= phase.last_step) return phase;
    throw ConfigError(fmt::format("--step: got {}, expected 1 to {}", step, phases.back().last_step));
  }

  void run() const {
    Env& env = system_env();
    check_overrides(sets,
                    {"data.", "phase", "train.seed", "train.steps", "train.global_batch_size", "train.runs",
                     "train.name", "train.init_from", "model."},
                    "dataset preview");
    const Config whole = load_config(env, file, sets, config_sources(env));
    validate_data(whole);
    if (samples < 1) throw ConfigError(fmt::format("--samples: got {}, expected at least 1", samples));
    const PhaseConfig phase = phase_of(whole);
    ProgressLine line;
    const Dataset data = open_dataset(phase.config, env,
                                      {.threads = num_usable_cpus(),
                                       .steps = phase.last_step - phase.first_step + 1,
                                       .progress = show_tokenizing(line)});
    line.clear();
    say_warnings(data.tokenizer.get());
    const Sampler sampler =
        make_sampler(data.channels, phase.config.train.seed, phase.config.train.global_batch_size,
                     {.name = phase.name, .first_step = phase.first_step});
    const auto wanted = std::ranges::find(data.channels, channel, &Channel::name);
    if (!channel.empty() && wanted == data.channels.end())
      throw ConfigError(
          fmt::format("--channel: got '{}', expected the name of a channel of {}", channel, file));
    const TerminalStyle style{.color = is_terminal(stdout) && environment_value("NO_COLOR").empty()};
    Json shown = Json::array();
    int64_t left = samples;
    for (int64_t at = step; left > 0 && at <= phase.last_step; ++at) {  // a channel may have none in a step
      for (int64_t slot = 0; left > 0 && slot < sampler.global_batch(); ++slot) {
        const Sample sample = sampler.sample(at, slot);
        const Channel& of = data.channels[static_cast<size_t>(sample.channel)];
        if (!channel.empty() && of.name() != channel) continue;
        --left;
        const auto epoch = of.of_epoch(sample.epoch);
        std::vector<ShownPart> parts;
        int64_t tokens = 0, counted = 0;
        if (epoch != nullptr && sample.sequence < epoch->num_train_sequences())
          for (const Window& window : epoch->train_windows(sample.sequence)) {
            parts.push_back(part_of(*epoch, data.tokenizer.get(), window));
            tokens += window.targets;
            counted += std::ranges::count(parts.back(), true, &ShownToken::counts);
          }
        if (json) {
          shown.push_back({{"step", at},
                           {"slot", slot},
                           {"channel", of.name()},
                           {"epoch", sample.epoch},
                           {"sequence", sample.sequence},
                           {"tokens", tokens},
                           {"targets", counted},
                           {"padding", of.seq_len() - tokens},
                           {"parts", to_json(parts)}});
          continue;
        }
        const std::string padding =
            tokens < of.seq_len() ? fmt::format(", {} of padding", with_commas(of.seq_len() - tokens)) : "";
        print(style.painted(kBold,
                            fmt::format("step {}, slot {}: channel '{}', epoch {}, sequence {}", at, slot,
                                        printable(of.name()), sample.epoch, with_commas(sample.sequence))) +
              fmt::format("\n{} tokens{}, of which {} count as targets{}\n", with_commas(tokens), padding,
                          with_commas(counted),
                          parts.size() > 1 ? fmt::format(", {} parts", parts.size()) : ""));
        print(drawn(parts, style) + "\n");
      }
    }
    if (json) print_json(shown);
  }
};

}  // namespace

void add_preview(CLI::App& dataset) {
  auto command = std::make_shared<PreviewCommand>();
  CLI::App* app =
      dataset.add_subcommand("preview", "Show sequences as a step trains on them, token by token");
  app->add_option("FILE", command->file, "config of a run")->required()->type_name("FILE.toml");
  app->add_option("--step", command->step, "of the run")->capture_default_str();
  app->add_option("--samples", command->samples, "sequences to show, from the first of the step on")
      ->capture_default_str();
  app->add_option("--channel", command->channel, "of this channel only")->type_name("NAME");
  app->add_option("--set", command->sets, "override a setting of the config")->type_name("KEY=VALUE");
  app->add_flag("--json", command->json, "print one JSON document");
  app->footer(
      "On a terminal neighbouring tokens differ in colour and tokens without loss are dim; elsewhere bars "
      "divide tokens,\n"
      "and those without loss stand in [[ ]]. Each document of a packed sequence is a line of its own.\n"
      "\n"
      "Examples:\n"
      "  athanor dataset preview run.toml\n"
      "  athanor dataset preview chat.toml --channel dialogs --samples 1 --step 100");
  app->callback([command] { command->run(); });
}

}  // namespace athanor::apps
