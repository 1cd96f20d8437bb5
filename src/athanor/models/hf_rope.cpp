#include "athanor/models/hf_rope.h"

#include <fmt/core.h>

#include <array>

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

// One table of settings: {"rope_type": "default", "rope_theta": 10000.0}.
void read_table(const HfConfig& rope, const std::string& place, const RopeFacts& facts, FoundBase& found) {
  for (const char* key : {"rope_type", "type"})
    if (const std::string type = rope.text(key, "default"); type != "default")
      rope.refuse(key, fmt::format("got '{}', expected default: scaled rotations are not supported",
                                   type.substr(0, 60)));
  check_part(rope, facts);
  if (const double factor = rope.number("factor", 1.0); factor != 1.0)
    rope.refuse("factor", fmt::format("got {}, expected 1: scaled rotations are not supported", factor));
  found.take(rope, place + ".rope_theta", "rope_theta");
  // A parameter of scalings, which are not supported.
  static constexpr std::array<std::string_view, 1> kOfScalings = {"original_max_position_embeddings"};
  rope.refuse_the_rest(kOfScalings);
}

}  // namespace

double read_rope_base(const HfConfig& config, const RopeFacts& facts) {
  FoundBase found;
  found.take(config, "rope_theta", "rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const HfConfig rope = config.object(key);
    const std::vector<std::string> kinds = rope.keys();
    if (kinds.empty() || !rope.is_object(kinds.front())) {
      read_table(rope, key, facts, found);
      continue;
    }
    // One table per kind of layer. They must agree, because the model has one rotation.
    for (const std::string& kind : kinds)
      read_table(rope.object(kind), fmt::format("{}.{}", key, kind), facts, found);
  }
  check_part(config, facts);
  return found.base.value_or(facts.default_base);
}

}  // namespace athanor::models
