#include "athanor/corpus/language/language.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/corpus/language/language_detector.h"

namespace athanor::corpus::language {
namespace {

std::string_view detectors_code(std::string_view code) {
  if (code == "iw") return "he";
  if (code == "jw") return "jv";
  if (code == "nb") return "no";
  if (code == "fil") return "tl";
  if (code == "zh-Hans") return "zh";
  return code;
}

// The places in codes that a code of keep stands for: itself, and its scripts unless it names one.
std::vector<size_t> places_of(const std::string& code, const std::vector<std::string>& codes) {
  const bool exact = std::find(codes.begin(), codes.end(), code) != codes.end();
  const std::string_view wanted = exact ? std::string_view(code) : detectors_code(code);
  const bool with_scripts = code.find_first_of("-_") == std::string::npos;
  std::vector<size_t> places;
  for (size_t i = 0; i < codes.size(); ++i) {
    const std::string_view known = codes[i];
    if (known == wanted || (with_scripts && known.size() > wanted.size() && known.starts_with(wanted) &&
                            (known[wanted.size()] == '-' || known[wanted.size()] == '_')))
      places.push_back(i);
  }
  if (!places.empty()) return places;
  const std::string nearest = base::nearest_name(code, codes);
  throw base::ConfigError(fmt::format("language.keep: got \"{}\", expected the code of a language", code),
                          nearest.empty() ? std::string("codes are ISO 639: en, de, zh, ...")
                                          : fmt::format("did you mean \"{}\"?", nearest));
}

class LanguageStage : public Stage {
 public:
  explicit LanguageStage(const LanguageOptions& options)
      : detector_(options.model.empty() ? make_cld2_detector() : make_fasttext_detector(options.model)) {
    if (options.keep.empty())
      throw base::ConfigError("language.keep: got no language, expected at least one", "keep = [\"en\"]");
    if (!(options.least >= 0.0 && options.least <= 1.0))
      throw base::ConfigError(
          fmt::format("language.least: got {}, expected a value in [0, 1]", options.least));
    const char* const of =
        options.model.empty()
            ? "percent of the letters' bytes that CLD2 gives to {} / 100, halved where CLD2 calls "
              "its answer unreliable and has fewer than 256 bytes of letters"
            : "probability of {} by the fastText model";
    scores_.push_back({"language.kept", fmt::format(fmt::runtime(of), "the languages of keep together")});
    std::vector<size_t> all;
    for (const std::string& code : options.keep) {
      if (std::count(options.keep.begin(), options.keep.end(), code) > 1)
        throw base::ConfigError(
            fmt::format("language.keep: got \"{}\" twice, expected each language once", code));
      scores_.push_back({"language." + code, fmt::format(fmt::runtime(of), code)});
      places_.push_back(places_of(code, detector_->codes()));
      all.insert(all.end(), places_.back().begin(), places_.back().end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    places_.insert(places_.begin(), std::move(all));
    rules_.push_back({"language.kept", 0, options.least, INFINITY});
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    std::vector<double> shares(detector_->codes().size());
    detector_->weigh(document.text, shares);
    for (size_t score = 0; score < places_.size(); ++score) {
      double sum = 0.0;
      for (const size_t place : places_[score]) sum += shares[place];
      values[score] = std::min(sum, 1.0);
    }
  }

 private:
  std::unique_ptr<LanguageDetector> detector_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
  std::vector<std::vector<size_t>> places_;  // of each score, in detector_->codes()
};

}  // namespace

std::unique_ptr<Stage> make_language(const LanguageOptions& options) {
  return std::make_unique<LanguageStage>(options);
}

const std::vector<config::Field<LanguageOptions>>& language_fields() {
  using O = LanguageOptions;
  static const std::vector<config::Field<O>> fields = {
      {"language",
       "keep",
       "languages to keep, by ISO 639 codes",
       "zh is Chinese in either script, zh-Hant only the traditional one.",
       config::slot_of<&O::keep>,
       {.required = true}},
      {"language",
       "least",
       "share of the text that must be in these languages",
       "0.65 drops what is unclear; pages with code or quotations need less.",
       config::slot_of<&O::least>,
       {.range = {0, 1}}},
      {"language",
       "model",
       "a fastText model of languages (lid.176.bin, .ftz); empty: CLD2, which is built in",
       "A model of a hundred megabytes is better on single sentences; CLD2 needs no file.",
       config::slot_of<&O::model>,
       {.is_path = true}},
  };
  return fields;
}

}  // namespace athanor::corpus::language
