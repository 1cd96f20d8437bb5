#include "athanor/corpus/heuristics/heuristics.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/corpus/heuristics/family.h"

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

class HeuristicsStage : public Stage {
 public:
  explicit HeuristicsStage(const std::vector<Family>& families) : families_(families) {
    for (const Family& family : families_)
      for (const Measure& measure : family.measures) {
        if (std::isfinite(measure.least) || std::isfinite(measure.most))
          rules_.push_back({measure.name, scores_.size(), measure.least, measure.most});
        scores_.push_back({measure.name, measure.formula});
      }
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    TextView view(document.text);
    for (const Family& family : families_) {
      family.measure(document, view, values.first(family.measures.size()));
      values = values.subspan(family.measures.size());
    }
  }

 private:
  std::vector<Family> families_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

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
  };
  return fields;
}

std::unique_ptr<Stage> make_heuristics(const HeuristicsOptions& options) {
  for (const Preset& preset : presets())
    if (preset.name == options.preset) return std::make_unique<HeuristicsStage>(preset.families);
  const std::string nearest = base::nearest_name(options.preset, heuristics_presets());
  throw ConfigError(fmt::format("heuristics.preset: got '{}', expected one of {}", options.preset,
                                fmt::join(heuristics_presets(), ", ")),
                    nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace athanor::corpus::heuristics
