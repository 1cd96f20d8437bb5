#include "athanor/config/print.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/columns.h"
#include "athanor/base/human.h"
#include "athanor/config/fields.h"
#include "athanor/config/phases.h"
#include "athanor/config/presets.h"
#include "athanor/masks/pattern.h"

namespace athanor::config {
namespace {

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Shortest digits that read back to the same bits, and never like an integer.
std::string toml_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::vector<std::pair<const char*, const std::string*>> optional_keys(const ChannelConfig& channel) {
  return {{"valid_path", &channel.valid_path},
          {"messages", &channel.messages},
          {"prompt", &channel.prompt},
          {"answer", &channel.answer},
          {"template", &channel.chat_template}};
}

// The keys of a channel that are mostly left out, with a comma before each.
std::string rare_keys(const ChannelConfig& channel) {
  std::string keys;
  for (const auto& [key, value] : optional_keys(channel))
    if (!value->empty()) keys += fmt::format(", {} = {}", key, toml_string(*value));
  if (channel.fim_rate > 0)
    keys += fmt::format(", fim_rate = {}, fim_spm_rate = {}", toml_float(channel.fim_rate),
                        toml_float(channel.fim_spm_rate));
  if (channel.follow) keys += ", follow = true";
  return keys;
}

std::string toml_channels(const std::vector<ChannelConfig>& channels) {
  std::string text = "[";
  for (const auto& channel : channels)
    text += fmt::format("\n  {{name = {}, path = {}, weight = {}{}{}{}}},", toml_string(channel.name),
                        toml_string(channel.path), toml_float(channel.weight),
                        channel.epochs > 0 ? ", epochs = " + toml_float(channel.epochs) : "",
                        channel.tokens > 0 ? fmt::format(", tokens = {}", channel.tokens) : "",
                        rare_keys(channel));
  return text + (channels.empty() ? "]" : "\n]");
}

std::string toml_groups(const std::vector<OptimizerGroupConfig>& groups) {
  std::vector<std::string> tables;
  for (const OptimizerGroupConfig& group : groups)
    tables.push_back(
        fmt::format("{{match = {}, lr_ratio = {}{}}}", toml_string(group.match), toml_float(group.lr_ratio),
                    group.weight_decay < 0 ? "" : ", weight_decay = " + toml_float(group.weight_decay)));
  return fmt::format("[{}]", fmt::join(tables, ", "));
}

struct AsToml {
  const Traits& traits;

  std::string operator()(const std::string* text) const { return toml_string(*text); }
  std::string operator()(const int64_t* value) const {
    return traits.auto_is_zero && *value == 0 ? "\"auto\"" : fmt::format("{}", *value);
  }
  std::string operator()(const uint64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return toml_float(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::vector<double>* values) const {
    std::vector<std::string> texts;
    for (const double value : *values) texts.push_back(toml_float(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(const std::vector<int64_t>* values) const {
    return fmt::format("[{}]", fmt::join(*values, ", "));
  }
  std::string operator()(const std::vector<std::string>* values) const {
    std::vector<std::string> texts;
    for (const std::string& value : *values) texts.push_back(toml_string(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(const std::vector<ChannelConfig>* channels) const {
    return toml_channels(*channels);
  }
  std::string operator()(const std::vector<OptimizerGroupConfig>* groups) const {
    return toml_groups(*groups);
  }
};

struct AsJson {
  const Traits& traits;

  nlohmann::ordered_json operator()(const int64_t* value) const {
    if (traits.auto_is_zero && *value == 0) return "auto";
    return *value;
  }
  nlohmann::ordered_json operator()(const std::vector<ChannelConfig>* channels) const {
    auto list = nlohmann::ordered_json::array();
    for (const auto& c : *channels) {
      list.push_back({{"name", c.name}, {"path", c.path}, {"weight", c.weight}});
      if (c.epochs > 0) list.back()["epochs"] = c.epochs;
      if (c.tokens > 0) list.back()["tokens"] = c.tokens;
      for (const auto& [key, value] : optional_keys(c))
        if (!value->empty()) list.back()[key] = *value;
      if (c.fim_rate > 0) {
        list.back()["fim_rate"] = c.fim_rate;
        list.back()["fim_spm_rate"] = c.fim_spm_rate;
      }
      if (c.follow) list.back()["follow"] = true;
    }
    return list;
  }
  nlohmann::ordered_json operator()(const std::vector<OptimizerGroupConfig>* groups) const {
    auto list = nlohmann::ordered_json::array();
    for (const OptimizerGroupConfig& group : *groups) {
      list.push_back({{"match", group.match}, {"lr_ratio", group.lr_ratio}});
      if (group.weight_decay >= 0) list.back()["weight_decay"] = group.weight_decay;
    }
    return list;
  }
  template <typename Value>
  nlohmann::ordered_json operator()(const Value* value) const {
    return *value;
  }
};

std::string origin_of(const Config& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin == config.origins.end() ? "default" : printable(origin->second.text);
}

struct Line {
  std::string table;  // "[model]" above the first line of a table, else nothing
  std::string name, value, note, origin;
};

template <typename Owner>
std::string note_of(const Field<Owner>& field) {
  const auto& choices = field.traits.choices;
  return choices.empty() ? field.note : fmt::format("{}", fmt::join(choices, ", "));
}

// A key of a phase and its value as TOML.
using Setting = std::pair<std::string, std::string>;

std::vector<Setting> settings_of(const Phase& phase) {
  std::vector<Setting> settings = {{"name", toml_string(phase.name)},
                                   {"steps", fmt::format("{}", phase.steps)}};
  Config values;
  for (const auto& field : config_fields()) {
    const auto setting = phase.settings.find(field.key());
    if (setting == phase.settings.end()) continue;
    assign(field.slot(values), setting->second);
    settings.emplace_back(field.key(), std::visit(AsToml{field.traits}, field.slot(values)));
  }
  return settings;
}

std::string toml_phases(const std::vector<Phase>& phases) {
  std::vector<std::string> tables;
  for (const Phase& phase : phases) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : settings_of(phase)) keys.push_back(fmt::format("{} = {}", key, value));
    tables.push_back(fmt::format("{{{}}}", fmt::join(keys, ", ")));
  }
  return fmt::format("[{}]", fmt::join(tables, ", "));
}

std::string phase_note(const PhaseConfig& phase, const std::string& key) {
  const ScheduleConfig& schedule = phase.config.schedule;
  if (key == "name") return phase_fields().front().note;
  if (key == "steps")
    return fmt::format("optimizer steps: {} to {} of the run, with the learning-rate schedule of {} to {}",
                       phase.first_step, phase.last_step, schedule.first_step,
                       schedule.first_step + schedule.steps - 1);
  const size_t dot = key.find('.');
  return note_of(*find_field(key.substr(0, dot), key.substr(dot + 1)));
}

std::vector<Line> lines_of(const Config& config) {
  Config copy = config;  // slots are pointers to mutable members
  std::vector<Line> lines;
  std::string section;
  for (const auto& field : config_fields()) {
    lines.push_back({section == field.section ? "" : fmt::format("[{}]", field.section), field.name,
                     std::visit(AsToml{field.traits}, field.slot(copy)), note_of(field),
                     origin_of(config, field.key())});
    section = field.section;
  }
  if (config.phases.empty()) return lines;
  const std::vector<PhaseConfig> phases = phases_of(config);
  for (size_t i = 0; i < phases.size(); ++i)
    for (const auto& [key, value] : settings_of(config.phases[i]))
      lines.push_back({key == "name" ? "[[phase]]" : "", key, value, phase_note(phases[i], key),
                       origin_of(config, phase_origin(i, key))});
  return lines;
}

nlohmann::ordered_json json_of(const Phase& phase) {
  nlohmann::ordered_json json = {{"name", phase.name}, {"steps", phase.steps}};
  Config values;
  for (const auto& field : config_fields()) {
    const auto setting = phase.settings.find(field.key());
    if (setting == phase.settings.end()) continue;
    assign(field.slot(values), setting->second);
    json[field.section][field.name] = std::visit(AsJson{field.traits}, field.slot(values));
  }
  return json;
}

// What a pattern leaves of the pairs and blocks of causal order, in an encoder of all, over all layers and heads. Nothing of a config that is not valid,
// and of sequences so long that it takes time to say.
std::string attention_line(const Config& config) try {
  constexpr int64_t kLongest = 16384;
  const ModelConfig& m = config.model;
  const int64_t length = config.data.seq_len;
  const bool both_sides = m.is_encoder();
  if (m.attention_pattern == (both_sides ? "full" : "causal") || length > kLongest) return "";
  const AttentionPattern pattern = AttentionPattern::parse(m.attention_pattern);
  double pairs = 0.0, blocks = 0.0, all_blocks = 0.0;
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    const AttentionMask mask = mask_of(
        pattern,
        {.positions = {{{0, length}}, {{0, length}}}, .length = length, .heads = m.num_attention_heads},
        layer);
    for (int64_t head = 0; head < mask.heads(); ++head) {
      const AttentionMask::Figures& figures = mask.figures(mask.rule_of(head));
      pairs += static_cast<double>(figures.pairs);
      blocks += static_cast<double>(figures.full_blocks + figures.partial_blocks);
      const int64_t side = mask.query_blocks();
      all_blocks += static_cast<double>(both_sides ? side * side : side * (side + 1) / 2);
    }
  }
  const auto heads = static_cast<double>(m.num_hidden_layers * m.num_attention_heads);
  const double all_pairs =
      heads * static_cast<double>(both_sides ? length * length : length * (length + 1) / 2);
  return fmt::format("# Attention: {:.1f} % of the {}pairs, {:.1f} % of the blocks ({} tokens).\n",
                     100.0 * pairs / all_pairs, both_sides ? "" : "causal ", 100.0 * blocks / all_blocks,
                     length);
} catch (const ConfigError&) {
  return "";
}

// Published counts of encoders are those with a pooler in place of the head.
std::string with_pooler(const ModelConfig& model) {
  if (!model.is_encoder()) return "";
  const int64_t count = num_params(model) - 2 * model.hidden_size - model.vocab_size;
  return fmt::format("; {} with a pooler in place of the head", with_commas(count));
}

std::string headline(const Config& config) {
  std::string run = fmt::format("# Settings of the run '{}', resolved; read back, they give the same run.\n",
                                printable(config.train.name));
  const ModelConfig& model = config.model;
  if (model.vocab_size == 0 || model.num_hidden_layers == 0) return run;
  return run +
         fmt::format("# Model: {} parameters ({}{}{}).\n", with_commas(num_params(model)), model.model_type,
                     model.preset.empty() ? "" : ", preset " + printable(model.preset), with_pooler(model)) +
         attention_line(config);
}

}  // namespace

std::string print_config(const Config& config, size_t columns) {
  // One long path must not push the comments of all other lines off the screen.
  constexpr size_t kWidestValue = 16, kWithOrigins = 120, kLeastNote = 20;
  const std::vector<Line> lines = lines_of(config);
  size_t name_width = 0, value_width = 0, note_width = 0, origin_width = 0;
  for (const auto& line : lines) {
    const size_t width = display_width(line.value);
    name_width = std::max(name_width, line.name.size());
    note_width = std::max(note_width, line.note.size());
    origin_width = std::max(origin_width, display_width(line.origin) + 2);
    if (width <= kWidestValue) value_width = std::max(value_width, width);
  }
  // Where there are columns to keep to, notes are broken between words.
  const size_t first_column = name_width + 3 + value_width + 2;
  const bool has_origins =
      columns == 0 || (columns >= kWithOrigins && columns >= first_column + 2 + kLeastNote + origin_width);
  size_t room = ~size_t{0};
  if (columns > 0) {
    const size_t taken = first_column + 2 + (has_origins ? origin_width : 0);
    room = columns > taken + kLeastNote ? columns - taken : kLeastNote;
    note_width = std::min(note_width, room);
  }
  std::string out = headline(config);
  for (const auto& line : lines) {
    if (!line.table.empty()) out += fmt::format("\n{}\n", line.table);
    const size_t last_line = line.value.rfind('\n');
    const std::string head = last_line == std::string::npos ? "" : line.value.substr(0, last_line + 1);
    const std::string tail = last_line == std::string::npos ? line.value : line.value.substr(last_line + 1);
    // The last line of a value over several lines starts at the margin: its comment still joins the column.
    const size_t tail_width = head.empty() ? value_width : name_width + 3 + value_width;
    std::string text =
        fmt::format("{} = {}{}  ", pad_columns(line.name, name_width), head, pad_columns(tail, tail_width));
    // A comment that a long value leaves no room for begins on the next line.
    if (columns > 0 && display_width(tail) > tail_width) text += "\n" + std::string(first_column, ' ');
    std::string origin = has_origins ? line.origin : "";
    if (columns == 0) {
      out += text + fmt::format("# {}  {}\n", pad_columns(line.note, note_width), origin);
      continue;
    }
    for (const std::string& piece : wrap_columns(line.note, room)) {
      out += text + "# " + (origin.empty() ? piece : pad_columns(piece, note_width) + "  " + origin) + "\n";
      text = std::string(first_column, ' ');
      origin.clear();
    }
  }
  return out;
}

std::string setting_text(const Config& config, std::string_view key) {
  if (key == "phase") return toml_phases(config.phases);
  Config copy = config;
  for (const auto& field : config_fields())
    if (field.key() == key) return std::visit(AsToml{field.traits}, field.slot(copy));
  fail("setting_text: got the key '{}', expected one of config_fields()", key);
}

std::string config_to_json(const Config& config) {
  Config copy = config;
  nlohmann::ordered_json json;
  for (const auto& field : config_fields())
    json[field.section][field.name] = std::visit(AsJson{field.traits}, field.slot(copy));
  json["phase"] = nlohmann::ordered_json::array();
  for (const Phase& phase : config.phases) json["phase"].push_back(json_of(phase));
  json["origins"] = nlohmann::ordered_json::object();
  for (const auto& [key, origin] : config.origins) json["origins"][key] = printable(origin.text);
  if (config.model.vocab_size > 0 && config.model.num_hidden_layers > 0)
    json["params"] = num_params(config.model);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<std::string> different_keys(const Config& a, const Config& b) {
  Config left = a, right = b;
  std::vector<std::string> keys;
  for (const auto& field : config_fields()) {
    const Slot x = field.slot(left), y = field.slot(right);
    const bool same =
        std::visit([&](auto* value) { return *value == **std::get_if<decltype(value)>(&y); }, x);
    if (!same) keys.push_back(field.key());
  }
  if (toml_phases(a.phases) != toml_phases(b.phases)) keys.emplace_back("phase");
  return keys;
}

}  // namespace athanor::config
