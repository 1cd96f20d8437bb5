#include "athanor/config/template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "athanor/base/human.h"
#include "athanor/config/effects.h"
#include "athanor/config/fields.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"

namespace athanor::config {
namespace {

constexpr const char* kChannels = R"(channels = [
  {name = "text", path = "data/text", weight = 1.0},
]
)";

// What a first run decides; the rest follows or has a default.
constexpr std::array kWanted = {
    "model.preset", "data.channels",         "data.tokenizer",          "data.seq_len",
    "train.name",   "train.steps",           "train.global_batch_size", "train.micro_batch_size",
    "optimizer.lr", "schedule.warmup_steps", "checkpoint.every_steps"};

bool is_wanted(const std::string& key) {
  return std::find(kWanted.begin(), kWanted.end(), key) != kWanted.end();
}

std::string what_it_is(const Field<Config>& field) {
  const std::string choices = fmt::format("{}", fmt::join(field.traits.choices, ", "));
  std::string note = field.note;
  if (choices.empty()) return note;
  return note.empty() ? choices : note + ": " + choices;
}

// In [model] what the preset says; a size that follows from others or from the data is written as what it follows from.
std::string default_text(const Config& defaults, const Field<Config>& field) {
  const std::string key = field.key();
  if (key == "model.vocab_size" && defaults.model.vocab_size == 0) return "0";
  return setting_text(defaults, key);
}

}  // namespace

std::string config_template(const std::string& preset) {
  Config config;
  config.model.preset = preset;
  config.model = complete_model(preset_fields(config), /*tokenizer_vocab=*/0, config.data.seq_len);
  config.model.preset = preset;
  config.data.tokenizer = "data/tokenizer.json";
  config.data.seq_len = std::min(config.data.seq_len, config.model.max_position_embeddings);
  config.train.name = "first";
  std::string text = fmt::format(
      "# A run of Athanor. Put your text and tokenizer into [data], then: athanor train FILE.toml\n"
      "# Each line that starts with '#' says a setting's default: remove the '#' to change it.\n"
      "# Paths of [data] and model.config start at the folder of this file. The run's results are in "
      "{}/{}.\n",
      config.train.runs, config.train.name);
  std::string section;
  for (const auto& field : config_fields()) {
    const std::string key = field.key();
    if (is_absent(key)) continue;
    if (section != field.section) text += fmt::format("\n[{}]\n", field.section);
    section = field.section;
    if (key == "data.channels") {
      text += fmt::format("# {}\n{}", what_it_is(field), kChannels);
      continue;
    }
    const std::string line =
        fmt::format("{}{} = {}", is_wanted(key) ? "" : "# ", field.name, default_text(config, field));
    text += fmt::format("{:<34} # {}\n", line, what_it_is(field));
  }
  text +=
      "\n# [[phase]] tables divide the run into phases with settings of their own: 'athanor init --settings' "
      "tells of them.\n";
  return text;
}

}  // namespace athanor::config
