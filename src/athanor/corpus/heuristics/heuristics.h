// Rules on the shape of a text: how long its words are, how much of it repeats, how its lines end.
//
//   const std::unique_ptr<Stage> stage = make_heuristics({.preset = "fineweb"});
//   for (const Rule& rule : stage->rules()) fmt::print("{} in [{}, {}]\n", rule.name, rule.least, rule.most);
//
// Presets:
//   gopher             gopher-quality, then gopher-repetition
//   gopher-quality     Rae et al. 2021: number and length of words, symbols, bullets, stop words
//   gopher-repetition  the same: repeated lines, paragraphs and n-grams of words
//   c4                 Raffel et al. 2020: drops lines, removes citations; then lorem ipsum, braces, sentences
//   c4-any-line-end    c4 without the rule that a line ends with a terminal mark, as FineWeb was made
//   fineweb            Penedo et al. 2024: how lines end, short and repeated lines, lists
//   curator            NeMo Curator's set for English
//   code               comments, lines, letters, visible text of HTML; with a tokenizer characters per token
//   zh                 for Chinese, by characters: ours (zh.cpp gives the reasons)
// Formulas and numbers are those of datatrove (a649de7) and NeMo Curator (1e2e427); scores() has each in a sentence, with
// its denominator. A document exactly at a limit is kept, as there. Words, lines and paragraphs are pinned in
// text_view.h; datatrove splits words by spaCy, so that counts of words differ by a few percent. Where nothing can be
// divided (no words) a score is NaN and breaks no rule; that a text is empty is for gopher.words and its like to say.
// c4 changes the text; every other preset leaves it alone.
// Errors: ConfigError for an unknown preset, with the nearest, and for a tokenizer of another preset than code; Error for a text of 4 GiB or more.
// Memory: while a document is looked at, about 16 bytes for each byte of prose; 60 where every word is a letter.
// Thread rule: as a Stage: any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::heuristics {

struct HeuristicsOptions {
  std::string preset = "gopher";
  std::string tokenizer = {};  // a tokenizer.json; of preset code
};

const std::vector<std::string>& heuristics_presets();
const std::vector<config::Field<HeuristicsOptions>>& heuristics_fields();

std::unique_ptr<Stage> make_heuristics(const HeuristicsOptions& options);

}  // namespace athanor::corpus::heuristics
