// The stage "language": keeps documents that are in one of the languages that are asked for.
//
//   const std::unique_ptr<Stage> stage = make_language({.keep = {"en", "zh"}, .least = 0.65});
//   language_of("Der Ofen hält die Hitze wochenlang.");   // "de"
//
// Scores: language.kept, and language.CODE for each code in keep. Rule: language.kept >= least. With CLD2, which is
// built in, language.CODE is the share of the letters' bytes that CLD2 gives to CODE, in steps of a percent; half of that
// where CLD2 calls its answer unreliable and has fewer than 256 bytes of letters to judge by. With a fastText model it is
// the probability of the label CODE. language.kept is the sum over keep, without counting a language twice. All are 0
// where there is no letter to judge by.
//
// Codes are ISO 639 with a script where one is told apart: "zh" is Chinese in either script, "zh-Hant" only that one, and
// so for any code with a "-" or "_" in it. he, jv, nb and fil are taken for CLD2's iw, jw, no and tl. A fastText model
// has the codes of its labels. Paper of the alternative model: Joulin et al. 2016; CLD2 has none (Dick Sites, 2013).
// Thread rule: see stage.h. Errors: ConfigError for an unknown code; those of FastTextModel.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::language {

struct LanguageOptions {
  std::vector<std::string> keep = {};
  double least = 0.65;
  std::string model = {};  // empty: CLD2
};

std::unique_ptr<Stage> make_language(const LanguageOptions& options);
const std::vector<config::Field<LanguageOptions>>& language_fields();

// CLD2's code of the language with most of the text; "und" where it knows none. Where that is English, but three tenths as much of the
// text is in another language, it is the other one: texts of all languages quote English (commands, names, licences).
std::string language_of(std::string_view text);

}  // namespace athanor::corpus::language
