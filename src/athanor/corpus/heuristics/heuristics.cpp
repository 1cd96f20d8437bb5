#include "athanor/corpus/heuristics/heuristics.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/text/tokenizer.h"

namespace athanor::corpus::heuristics {
namespace {

struct Preset {
  const char* name;
  std::vector<Family> families;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {"gopher", {gopher_quality(), gopher_repetition()}},
      {"gopher-quality", {gopher_quality()}},
      {"gopher-repetition", {gopher_repetition()}},
      {"c4", {c4()}},
      {"c4-any-line-end", {c4_any_line_end()}},
      {"fineweb", {fineweb()}},
      {"curator", {curator()}},
      {"code", {code()}},
      {"zh", {zh()}},
  };
  return list;
}

// Text that a tokenizer cuts into shorter pieces than these is data, encoded bytes or minified (NeMo Curator: 2).
constexpr Measure kCharsPerToken = {"code.chars_per_token", "characters / tokens of heuristics.tokenizer", 2};

class HeuristicsStage : public Stage {
 public:
  HeuristicsStage(const std::vector<Family>& families, std::shared_ptr<const text::Tokenizer> tokenizer)
      : families_(families), tokenizer_(std::move(tokenizer)) {
    for (const Family& family : families_)
      for (const Measure& measure : family.measures) {
        if (std::isfinite(measure.least) || std::isfinite(measure.most))
          rules_.push_back({measure.name, scores_.size(), measure.least, measure.most});
        scores_.push_back({measure.name, measure.formula});
      }
    if (tokenizer_ == nullptr) return;
    rules_.push_back({kCharsPerToken.name, scores_.size(), kCharsPerToken.least, kCharsPerToken.most});
    scores_.push_back({kCharsPerToken.name, kCharsPerToken.formula});
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    TextView view(document.text);
    for (const Family& family : families_) {
      family.measure(document, view, values.first(family.measures.size()));
      values = values.subspan(family.measures.size());
    }
    if (tokenizer_ == nullptr) return;
    const size_t tokens = tokenizer_->encode_ordinary(document.text).size();
    values[0] = tokens == 0 ? NAN : static_cast<double>(view.chars()) / static_cast<double>(tokens);
  }

 private:
  std::vector<Family> families_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

std::shared_ptr<const text::Tokenizer> tokenizer_of(const HeuristicsOptions& options) {
  if (options.tokenizer.empty()) return nullptr;
  if (options.preset != "code")
    throw ConfigError(fmt::format(
        "heuristics.tokenizer: got one for preset '{}', expected preset 'code', whose rules alone "
        "count tokens",
        options.preset));
  return text::Tokenizer::load(base::system_env(), options.tokenizer);
}

}  // namespace

const std::vector<std::string>& heuristics_presets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Preset& preset : presets()) list.emplace_back(preset.name);
    return list;
  }();
  return names;
}

const std::vector<config::Field<HeuristicsOptions>>& heuristics_fields() {
  static const std::vector<config::Field<HeuristicsOptions>> fields = {
      {"heuristics",
       "preset",
       "which rules on the shape of a text",
       "gopher and fineweb for web pages in English, c4 to clean them line by line, code for source files, "
       "zh for "
       "Chinese. Several: a stage for each.",
       config::slot_of<&HeuristicsOptions::preset>,
       {.choices = heuristics_presets()}},
      {"heuristics",
       "tokenizer",
       "a tokenizer.json, for the rule on characters per token of preset code; empty: no such rule",
       "It drops encoded data and minified code; a tokenizer of code is best, and takes most of the stage's "
       "time.",
       config::slot_of<&HeuristicsOptions::tokenizer>,
       {.is_path = true}},
  };
  return fields;
}

std::unique_ptr<Stage> make_heuristics(const HeuristicsOptions& options) {
  for (const Preset& preset : presets())
    if (preset.name == options.preset)
      return std::make_unique<HeuristicsStage>(preset.families, tokenizer_of(options));
  const std::string nearest = base::nearest_name(options.preset, heuristics_presets());
  throw ConfigError(fmt::format("heuristics.preset: got '{}', expected one of {}", options.preset,
                                fmt::join(heuristics_presets(), ", ")),
                    nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace athanor::corpus::heuristics
