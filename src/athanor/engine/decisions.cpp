#include "athanor/engine/decisions.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/store/json.h"

namespace athanor::engine {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostBatches = 1'000'000'000, kMostSteps = int64_t{1} << 40;
constexpr const char* kKinds = "skip_batches, quarantine, set or layout";

// The members of a line, with errors that say where it stands.
struct Line {
  const Json& json;
  const std::string& where;

  void know(std::initializer_list<const char*> own) const {
    for (const auto& [key, value] : json.items()) {
      const auto is = [&key = key](const char* name) { return key == name; };
      const bool known = is("step") || is("decision") || is("why") || is("generation");
      if (!known && std::none_of(own.begin(), own.end(), is)) fail("{}: unknown key '{}'", where, key);
    }
  }
  const Json& at(const char* key) const {
    check(json.contains(key), "{}: '{}' is missing", where, key);
    return json[key];
  }
  std::string text(const char* key) const {
    check(at(key).is_string(), "{}: {}: got {}, expected a string", where, key, at(key).dump());
    return json[key].get<std::string>();
  }
  int64_t number(const char* key, int64_t most, uint64_t least = 1) const {
    const Json& value = at(key);
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() >= least &&
                      value.get<uint64_t>() <= static_cast<uint64_t>(most);
    check(fits, "{}: {}: got {}, expected {} to {}", where, key, value.dump(), least, most);
    return value.get<int64_t>();
  }
};

}  // namespace

std::string decision_line(const Decision& decision, int64_t generation) {
  nlohmann::ordered_json json = {{"step", decision.step}};
  if (const auto* skip = std::get_if<SkipBatches>(&decision.what)) {
    json["decision"] = "skip_batches";
    json["batches"] = skip->batches;
  } else if (const auto* data = std::get_if<QuarantineData>(&decision.what)) {
    json["decision"] = "quarantine";
    json["channel"] = data->channel;
    json["file"] = data->file;
    json["offset"] = data->offset;
  } else if (const auto* set = std::get_if<SetSetting>(&decision.what)) {
    json["decision"] = "set";
    json["key"] = set->key;
    json["value"] = set->value;
    json["was"] = set->was;
  } else {
    const auto& change = std::get<LayoutChange>(decision.what);
    json["decision"] = "layout";
    json["from"] = change.from;
    json["to"] = change.to;
  }
  json["why"] = decision.why;
  if (generation >= 0) json["generation"] = generation;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Decision parse_decision(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  check(json.is_object(), "{}: got {}, expected an object", where, json.type_name());
  const Line line{json, where};
  Decision decision{.step = line.number("step", kMostSteps), .what = {}};
  const std::string kind = line.text("decision");
  if (kind == "skip_batches") {
    line.know({"batches"});
    decision.what = SkipBatches{line.number("batches", kMostBatches)};
  } else if (kind == "quarantine") {
    line.know({"channel", "file", "offset"});
    decision.what = QuarantineData{line.text("channel"), line.text("file"),
                                   line.number("offset", std::numeric_limits<int64_t>::max(), 0)};
  } else if (kind == "set") {
    line.know({"key", "value", "was"});
    decision.what = SetSetting{line.text("key"), line.text("value"), line.text("was")};
  } else if (kind == "layout") {
    line.know({"from", "to"});
    decision.what = LayoutChange{line.text("from"), line.text("to")};
  } else {
    fail("{}: decision: got '{}', expected {}", where, kind, kKinds);
  }
  if (json.contains("why")) decision.why = line.text("why");
  return decision;
}

std::vector<Decision> parse_decisions(std::string_view text, const std::string& file) {
  std::vector<Decision> decisions;
  int64_t last = 0, last_skip = 0;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", file, number);
    try {
      const Decision& added = decisions.emplace_back(parse_decision(line, where));
      check(added.step >= last, "{}: got step {} after step {}, expected ascending steps", where, added.step,
            last);
      last = added.step;
      if (!std::holds_alternative<SkipBatches>(added.what)) continue;
      check(added.step > last_skip, "{}: got a second skip_batches of step {}, expected one", where,
            added.step);
      last_skip = added.step;
    } catch (const Error& error) {
      throw ConfigError(error.what(),
                        "a line is {\"step\":5,\"decision\":\"skip_batches\",\"batches\":2,\"why\":\"...\"}");
    }
  }
  return decisions;
}

std::string text_of(const Decision& decision) {
  const std::string why = decision.why.empty() ? "" : ": " + decision.why;
  if (const auto* skip = std::get_if<SkipBatches>(&decision.what))
    return fmt::format("skips {} global batch{}{}", skip->batches, skip->batches == 1 ? "" : "es", why);
  if (const auto* data = std::get_if<QuarantineData>(&decision.what))
    return fmt::format("quarantines the sequences at offset {} of '{}', channel '{}'{}", data->offset,
                       data->file, data->channel, why);
  if (const auto* set = std::get_if<SetSetting>(&decision.what))
    return set->value == set->was
               ? fmt::format("{} stays {}{}", set->key, set->value, why)
               : fmt::format("{} is {} instead of {}{}", set->key, set->value, set->was, why);
  const auto& change = std::get<LayoutChange>(decision.what);
  return fmt::format("layout changed from {} to {}{}", change.from, change.to, why);
}

std::vector<BatchSkip> skips_of(const std::vector<Decision>& decisions) {
  std::vector<BatchSkip> skips;
  for (const Decision& decision : decisions)
    if (const auto* skip = std::get_if<SkipBatches>(&decision.what))
      skips.push_back({.step = decision.step, .batches = skip->batches});
  return skips;
}

std::vector<Quarantine> quarantines_of(const std::vector<Decision>& decisions) {
  std::vector<Quarantine> quarantines;
  for (const Decision& decision : decisions)
    if (const auto* data = std::get_if<QuarantineData>(&decision.what))
      quarantines.push_back({decision.step, data->channel, data->file, data->offset});
  return quarantines;
}

std::vector<Decision> undo_steps(std::vector<Decision> decisions, int64_t first, int64_t last,
                                 const std::string& why) {
  int64_t batches = last - first + 1;
  std::erase_if(decisions, [&](const Decision& decision) {
    const auto* skip = std::get_if<SkipBatches>(&decision.what);
    if (skip == nullptr || decision.step < first || decision.step > last) return false;
    batches += skip->batches;
    return true;
  });
  return with_decisions(std::move(decisions), {{.step = first, .what = SkipBatches{batches}, .why = why}});
}

std::vector<Decision> with_decisions(std::vector<Decision> decisions, const std::vector<Decision>& added) {
  for (const Decision& decision : added) {
    const auto later = std::find_if(decisions.begin(), decisions.end(),
                                    [&](const Decision& other) { return other.step > decision.step; });
    decisions.insert(later, decision);
  }
  return decisions;
}

}  // namespace athanor::engine
