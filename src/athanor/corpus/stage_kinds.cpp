#include "athanor/corpus/stage_kinds.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/corpus/classifier/classifier.h"
#include "athanor/corpus/dedup/cut.h"
#include "athanor/corpus/dedup/substrings.h"
#include "athanor/corpus/filters/decontaminate.h"
#include "athanor/corpus/filters/keywords.h"
#include "athanor/corpus/filters/url.h"
#include "athanor/corpus/heuristics/heuristics.h"
#include "athanor/corpus/language/language.h"
#include "athanor/corpus/perplexity/perplexity.h"
#include "athanor/corpus/privacy/privacy.h"

namespace athanor::corpus {
namespace {

// The files that a stage reads are part of what its scores depend on.
void anchor(std::string& path, const std::string& folder, StageConfig& config) {
  if (path.empty()) return;
  if (!folder.empty()) path = (std::filesystem::path(folder) / path).lexically_normal().string();
  std::error_code no_time, no_size;
  const auto time = std::filesystem::last_write_time(path, no_time);
  const uintmax_t size_bytes = std::filesystem::file_size(path, no_size);
  config.settings += fmt::format("\n{} {} {}", path, no_size ? 0 : size_bytes,
                                 no_time ? 0 : time.time_since_epoch().count());
}

template <typename Options>
void read_options(const std::string& folder, const toml::table& table,
                  const std::vector<Field<Options>>& fields, const TableSource& source, Options& options,
                  StageConfig& config) {
  read_table(table, fields, options, source);
  for (const Field<Options>& field : fields) {
    if (!field.traits.is_path) continue;
    const Slot slot = field.slot(options);
    if (auto* const* path = std::get_if<std::string*>(&slot)) anchor(**path, folder, config);
    if (auto* const* paths = std::get_if<std::vector<std::string>*>(&slot))
      for (std::string& each : **paths) anchor(each, folder, config);
  }
}

template <typename Options, typename Make>
StageKind stage_of(std::string name, std::string note, const std::vector<Field<Options>>& fields, Make make) {
  return {std::move(name), std::move(note),
          [&fields, make](const std::string& folder, const toml::table& table, const TableSource& source,
                          StageConfig& config) {
            Options options;
            read_options(folder, table, fields, source, options, config);
            try {
              config.stage = make(options);
            } catch (const ConfigError& error) {  // it knows no file
              throw ConfigError(line_of(source, table) + ": " + error.what(), error.hint());
            }
          }};
}

// Of texts that a deduplication has cut: what is left of them.
class LeftOverStage final : public Stage {
 public:
  explicit LeftOverStage(const DedupOptions& options)
      : left_over_(options),
        scores_{{"dedup." + options.method + ".words", "words that are left of a text that was cut"},
                {"dedup." + options.method + ".sentences", "sentences that are left of a text that was cut"}},
        rules_{{scores_[0].name, 0, static_cast<double>(options.min_words), INFINITY},
               {scores_[1].name, 1, static_cast<double>(options.min_sentences), INFINITY}} {}

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }
  void annotate(Document& document, std::span<double> values) const override {
    values[0] = static_cast<double>(left_over_.count_words(document.text));
    values[1] = static_cast<double>(left_over_.count_sentences(document.text));
  }

 private:
  LeftOver left_over_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

StageKind dedup_kind() {
  return {"dedup", "documents, or parts of them, that are there already",
          [](const std::string& folder, const toml::table& table, const TableSource& source,
             StageConfig& config) {
            DedupOptions options;
            read_options(folder, table, dedup_fields(), source, options, config);
            config.against = options.against;
            if (options.method == "substring" && !options.against.empty())
              throw ConfigError(fmt::format(
                  "{}: {}.against: got a path, expected none: substrings are compared within a build only",
                  line_of(source, table), source.name));
            if (options.method == "substring")
              config.substring_bytes = substring_min_bytes(options);
            else
              config.keys = make_key_method(options);
            if (config.keys == nullptr || config.keys->cuts_spans())
              config.stage = std::make_shared<LeftOverStage>(options);
            config.copies = "dedup." + options.method;
          }};
}

}  // namespace

const std::vector<StageKind>& stage_kinds() {
  static const std::vector<StageKind> kinds = {
      stage_of<HeuristicsOptions>("heuristics", "rules on words, lines and repetitions, by presets",
                                  heuristics_fields(), make_heuristics),
      stage_of<LanguageOptions>("language", "documents in languages that are asked for", language_fields(),
                                make_language),
      stage_of<PerplexityOptions>("perplexity", "documents that a reference text makes likely",
                                  perplexity_fields(), make_perplexity),
      stage_of<ClassifierOptions>("classifier", "documents that a trained classifier takes for good ones",
                                  classifier_fields(), make_classifier),
      stage_of<KeywordOptions>("keywords", "documents with words of a list, or without", keyword_fields(),
                               make_keywords),
      stage_of<UrlOptions>("url", "lists of domains, hosts, addresses and words in them", url_fields(),
                           make_url),
      stage_of<PrivacyOptions>(
          "privacy", "e-mail addresses, phones, cards, keys ... replaced, hashed or a reason to drop",
          privacy_fields(), make_privacy),
      stage_of<DecontaminateOptions>("decontaminate", "documents that hold text of evaluation sets",
                                     decontaminate_fields(), make_decontaminate),
      dedup_kind(),
  };
  return kinds;
}

const StageKind& find_stage_kind(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const StageKind& kind : stage_kinds()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  const std::string nearest = nearest_name(name, known);
  throw ConfigError(fmt::format("{}: stage kind '{}' is unknown{}", where, printable(name),
                                nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)),
                    fmt::format("the kinds are {}", fmt::join(known, ", ")));
}

}  // namespace athanor::corpus
