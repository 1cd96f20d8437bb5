#include "athanor/config/init_source.h"

#include <algorithm>
#include <array>

#include "athanor/base/human.h"
#include "athanor/config/fields.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/refuse.h"

namespace athanor::config {
namespace {

// Keys of [model] that a config may set otherwise than the weights' own.
constexpr std::array kMayDiffer = {
    "model.attention_pattern",  // has no parameters; windows are narrowed and widened in finetuning
    "model.dropout",            // acts in training only, and is often another one in finetuning
    "model.max_position_embeddings",  // with RoPE a limit and no parameter; tables of positions are compared all the same
    "model.router_aux_loss_coef",     // coefficients of losses that are added in training
    "model.router_z_loss_coef",       //
    "model.router_bias_update_rate",  // how fast the balancing bias moves, not what it is
    "model.capacity_factor",          // what is dropped in training
};

// A context that is stretched in finetuning. The base is not among them: another one reads every position differently.
bool is_of_scaled_rotations(const std::string& key) {
  return key.starts_with("model.rope_") && key != "model.rope_theta";
}

bool may_differ(const Config& config, const std::string& key) {
  if (is_of_scaled_rotations(key)) return true;
  if (!config.model.has_rope() && key == "model.max_position_embeddings") return false;
  return std::find(kMayDiffer.begin(), kMayDiffer.end(), key) != kMayDiffer.end();
}

// What no config.json says. GPT-2's resid_pdrop and BERT's hidden_dropout_prob are model.dropout; other families have no
// dropout there.
bool is_beside_file(const Config& config, const std::string& key) {
  return key == "model.dropout" ? config.model.has_rope()
                                : key == "model.router_z_loss_coef" || key == "model.capacity_factor";
}

bool set_by_user(const Config& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin != config.origins.end() && origin->second.by_user();
}

bool is_unset(const Slot& slot) {
  auto* const* integer = std::get_if<int64_t*>(&slot);
  return integer != nullptr && **integer == 0;
}

void copy(const Slot& to, const Slot& from) {
  std::visit([&](auto* value) { *value = *std::get<decltype(value)>(from); }, to);
}

bool equal(const Slot& a, const Slot& b) {
  return std::visit([&](auto* value) { return *value == *std::get<decltype(value)>(b); }, a);
}

// What the preset makes of the model with what the user changed in it; zero where it is for the data to say.
ModelConfig of_preset(const Config& config) {
  Config wanted, user = config;
  wanted.model = preset_fields(config);
  for (const auto& field : shape_fields())
    if (set_by_user(config, field.key()) && !is_unset(field.slot(user)))
      copy(field.slot(wanted), field.slot(user));
  return complete_model(wanted.model, /*tokenizer_vocab=*/0, /*seq_len=*/0);
}

}  // namespace

void take_source(Config& config, const InitSource& source) {
  Config theirs, preset;
  theirs.model = source.model;
  const std::string name = config.model.preset;
  if (!name.empty()) preset.model = of_preset(config);
  for (const auto& field : shape_fields()) {
    const std::string key = field.key();
    const Slot ours = field.slot(config), wanted = field.slot(theirs), named = field.slot(preset);
    const bool by_user = set_by_user(config, key) && !is_unset(ours);
    if (by_user && (equal(ours, wanted) || may_differ(theirs, key))) continue;
    if (by_user)
      refuse(config, key, "leave " + key + " out: the architecture is that of train.init_from",
             "got {}, expected {} as in {}", setting_text(config, key), setting_text(theirs, key),
             source.what);
    const bool says =
        !name.empty() && !is_unset(named) && key != "model.initializer_range" && !may_differ(theirs, key);
    if (says && !equal(named, wanted))
      refuse(config, "model.preset", "leave model.preset out: the architecture is that of train.init_from",
             "got '{}', whose {} is {}, expected {} as in {}", printable(name), key,
             setting_text(preset, key), setting_text(theirs, key), source.what);
    copy(ours, wanted);
    config.origins[key] = {Origin::Kind::source, source.what};
  }
  if (source.tokenizer.empty() && !config.data.tokenizer.empty())
    config.warnings.push_back(
        fmt::format("{} has no tokenizer: whether data.tokenizer is the one of its training, nothing tells",
                    source.what));
  if (source.tokenizer.empty() || !config.data.tokenizer.empty()) return;
  config.data.tokenizer = source.tokenizer;
  config.origins["data.tokenizer"] = {Origin::Kind::source, source.what};
}

void take_model_config(Config& config, const InitSource& file) {
  if (!config.model.preset.empty())
    refuse(config, "model.preset", "leave one of the two out: each says the whole model",
           "got '{}', expected none beside model.config = '{}'", printable(config.model.preset), file.what);
  Config theirs;
  theirs.model = file.model;
  for (const auto& field : shape_fields()) {
    const std::string key = field.key();
    const Slot ours = field.slot(config), wanted = field.slot(theirs);
    if (is_beside_file(theirs, key)) continue;
    if (set_by_user(config, key) && !is_unset(ours)) {
      if (equal(ours, wanted)) continue;
      refuse(config, key, "leave " + key + " out, or change the file", "got {}, expected {} as in {}",
             setting_text(config, key), setting_text(theirs, key), file.what);
    }
    copy(ours, wanted);
    config.origins[key] = {Origin::Kind::model_config, file.what};
  }
  config.model.config.clear();
}

}  // namespace athanor::config
