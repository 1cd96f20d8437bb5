#include "athanor/models/hf_rope.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

namespace athanor::models {
namespace {

// The base and where it was found first. Every later one must be equal.
struct FoundBase {
  std::optional<double> base;
  std::string where;

  void take(const HfConfig& config, const std::string& place, const std::string& key) {
    if (!config.has(key)) return;
    const double value = config.number(key, 0.0);
    if (!(value > 0.0)) config.refuse(key, fmt::format("got {}, expected above 0", value));
    if (base && *base != value)
      config.refuse(key, fmt::format("got {}, but {} says {}: expected one base", value, where, *base));
    base = value;
    where = place;
  }
};

// The settings of the scaling, in a model that has nothing else, and the table that they were found in first.
struct FoundScaling {
  std::optional<ModelConfig> scaling;
  std::string where;

  void take(const HfConfig& table, const std::string& place, const std::string& type_key,
            const ModelConfig& here) {
    if (scaling && *scaling != here)
      table.refuse(type_key, fmt::format("got another scaling than {}: expected one", where));
    scaling = here;
    where = place;
  }
};

void check_part(const HfConfig& config, const RopeFacts& facts) {
  if (const double part = config.number("partial_rotary_factor", 1.0); part != 1.0)
    config.refuse(
        "partial_rotary_factor",
        fmt::format("got {}, expected 1: a rotation of a part of the channels is not supported", part));
  for (const char* key : {"rotary_dim", "rotary_ndims", "rotary_emb_dim"})
    if (const int64_t part = config.integer(key, facts.head_dim); part != facts.head_dim)
      config.refuse(key,
                    fmt::format("got {}, expected head_dim = {}: a rotation of a part of the channels is not "
                                "supported",
                                part, facts.head_dim));
}

double positive(const HfConfig& table, const char* key, std::optional<double> otherwise = std::nullopt) {
  if (!table.has(key) && !otherwise) table.refuse(key, "is missing");
  const double value = table.number(key, otherwise.value_or(0.0));
  if (!(value > 0.0) || !std::isfinite(value))
    table.refuse(key, fmt::format("got {}, expected above 0", value));
  return value;
}

int64_t length(const HfConfig& table, const char* key, int64_t otherwise) {
  const int64_t value = table.integer(key, otherwise);
  if (value < 1) table.refuse(key, "got 0, expected at least 1");
  return value;
}

// The kind of scaling, and the key that says it.
std::pair<std::string, std::string> type_of(const HfConfig& table) {
  const std::string key = table.has("rope_type") || !table.has("type") ? "rope_type" : "type";
  const std::string type = table.text(key, "default");
  if (const std::string other = table.text("type", type); other != type)
    table.refuse("type", fmt::format("got '{}', but rope_type says '{}': expected one kind",
                                     other.substr(0, 60), type.substr(0, 60)));
  return {type, key};
}

ModelConfig read_scaling(const HfConfig& table, const std::string& type, const std::string& type_key,
                         int64_t max_positions) {
  ModelConfig scaling;
  if (type == "default") {
    if (const double factor = table.number("factor", 1.0); factor != 1.0)
      table.refuse("factor", fmt::format("got {}, expected 1 where {} is default", factor, type_key));
    return scaling;
  }
  const char* const original = "original_max_position_embeddings";
  if (type != "linear" && type != "llama3" && type != "yarn")
    table.refuse(type_key, fmt::format("got '{}', expected default, linear, llama3 or yarn: this scaling of "
                                       "rotations is not supported",
                                       type.substr(0, 60)));
  scaling.rope_scaling = type;
  scaling.rope_factor = positive(table, "factor");
  if (scaling.rope_factor < 1.0)
    table.refuse("factor", fmt::format("got {}, expected at least 1", scaling.rope_factor));
  if (type == "llama3") {
    if (!table.has(original)) table.refuse(original, "is missing");
    scaling.rope_original_length = length(table, original, 0);
    scaling.rope_low_freq_factor = positive(table, "low_freq_factor");
    scaling.rope_high_freq_factor = positive(table, "high_freq_factor");
  } else if (type == "yarn") {
    scaling.rope_original_length = length(table, original, max_positions);
    scaling.rope_beta_fast = positive(table, "beta_fast", 32.0);
    scaling.rope_beta_slow = positive(table, "beta_slow", 1.0);
    scaling.rope_truncate = table.boolean("truncate", true);
    if (table.has("attention_factor")) scaling.rope_attention_factor = positive(table, "attention_factor");
  }
  return scaling.rope_factor > 1.0 || scaling.rope_attention_factor > 0.0 ? scaling : ModelConfig{};
}

struct Found {
  FoundBase base;
  FoundScaling scaling;
};

// One table of settings: {"rope_type": "default", "rope_theta": 10000.0}.
void read_table(const HfConfig& rope, const std::string& place, const RopeFacts& facts, int64_t max_positions,
                Found& found) {
  const auto [type, type_key] = type_of(rope);
  found.scaling.take(rope, place, type_key, read_scaling(rope, type, type_key, max_positions));
  check_part(rope, facts);
  found.base.take(rope, place + ".rope_theta", "rope_theta");
  // What the scaling leaves alone.
  static constexpr std::array<std::string_view, 1> kOfScalings = {"original_max_position_embeddings"};
  rope.refuse_the_rest(kOfScalings);
}

void take_scaling(const ModelConfig& from, ModelConfig& to) {
  to.rope_scaling = from.rope_scaling;
  to.rope_factor = from.rope_factor;
  to.rope_original_length = from.rope_original_length;
  to.rope_low_freq_factor = from.rope_low_freq_factor;
  to.rope_high_freq_factor = from.rope_high_freq_factor;
  to.rope_beta_fast = from.rope_beta_fast;
  to.rope_beta_slow = from.rope_beta_slow;
  to.rope_truncate = from.rope_truncate;
  to.rope_attention_factor = from.rope_attention_factor;
}

}  // namespace

void read_rotations(const HfConfig& config, const RopeFacts& facts, ModelConfig& model) {
  Found found;
  found.base.take(config, "rope_theta", "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const HfConfig rope = config.object(key);
    const std::vector<std::string> kinds = rope.keys();
    if (kinds.empty()) continue;
    if (!rope.is_object(kinds.front())) {
      read_table(rope, key, facts, model.max_position_embeddings, found);
      continue;
    }
    // One table per kind of layer. They must agree, because the model has one rotation.
    for (const std::string& kind : kinds)
      read_table(rope.object(kind), fmt::format("{}.{}", key, kind), facts, model.max_position_embeddings,
                 found);
  }
  check_part(config, facts);
  model.rope_theta = found.base.base.value_or(facts.default_base);
  take_scaling(found.scaling.scaling.value_or(ModelConfig{}), model);
}

void write_rotations(const ModelConfig& model, nlohmann::ordered_json& config) {
  const std::string& method = model.rope_scaling;
  double base = model.rope_theta;
  nlohmann::ordered_json scaling = nullptr;
  if (method == "ntk" && model.head_dim > 2) {
    const auto width = static_cast<double>(model.head_dim);
    base *= std::pow(model.rope_factor, width / (width - 2.0));
  } else if (method != "none" && method != "ntk") {
    scaling = {{"rope_type", method}, {"factor", model.rope_factor}};
    if (method != "linear") scaling["original_max_position_embeddings"] = model.original_context();
    if (method == "llama3") {
      scaling["low_freq_factor"] = model.rope_low_freq_factor;
      scaling["high_freq_factor"] = model.rope_high_freq_factor;
    } else if (method == "yarn") {
      scaling["beta_fast"] = model.rope_beta_fast;
      scaling["beta_slow"] = model.rope_beta_slow;
      scaling["truncate"] = model.rope_truncate;
      if (model.rope_attention_factor > 0.0) scaling["attention_factor"] = model.rope_attention_factor;
    }
  }
  config["rope_theta"] = base;
  config["rope_scaling"] = scaling;
  nlohmann::ordered_json parameters = {{"rope_theta", base}, {"rope_type", "default"}};
  if (!scaling.is_null()) parameters.update(scaling);
  config["rope_parameters"] = parameters;
}

}  // namespace athanor::models
