// The normalizer that training writes into tokenizer.json.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/text/trainers/train_types.h"

namespace athanor::text::trainers {
namespace {

// Names as people write them, and the types of tokenizer.json.
constexpr std::pair<const char*, const char*> kSteps[] = {{"nfc", "NFC"},
                                                          {"nfd", "NFD"},
                                                          {"nfkc", "NFKC"},
                                                          {"nfkd", "NFKD"},
                                                          {"lowercase", "Lowercase"},
                                                          {"strip_accents", "StripAccents"}};

OrderedJson step_json(const std::string& name) {
  std::vector<std::string> known = {};
  for (const auto& [step, type] : kSteps) {
    if (name == step) return {{"type", type}};
    known.emplace_back(step);
  }
  known.emplace_back("none");
  const std::string nearest = nearest_name(name, known);
  throw ConfigError(
      fmt::format("normalizer: got '{}', expected nfc, nfd, nfkc, nfkd, lowercase, strip_accents or none",
                  name),
      nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace

OrderedJson normalizer_of(const TokenizerTrainerOptions& options) {
  const std::vector<std::string>& names = options.normalizer;
  OrderedJson steps = OrderedJson::array();
  const bool is_none = std::ranges::find(names, "none") != names.end();
  if (is_none && names.size() > 1)
    throw ConfigError(fmt::format("normalizer: got {}, expected none alone", fmt::join(names, ",")));
  if (is_none) return nullptr;
  if (options.type == "wordpiece") steps.push_back(word_piece_normalizer());
  bool is_decomposed = false;
  for (const std::string& name : names) {
    steps.push_back(step_json(name));
    if (name == "nfd" || name == "nfkd") is_decomposed = true;
    if (name == "nfc" || name == "nfkc") is_decomposed = false;
    if (name == "strip_accents" && !is_decomposed)
      throw ConfigError(
          "normalizer: strip_accents takes only marks that stand alone, expected nfd or nfkd before it",
          "for example: nfd,strip_accents");
  }
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

}  // namespace athanor::text::trainers
