// The stage "keywords": counts words or phrases of a list, and drops documents by the count.
//
//   const std::unique_ptr<Stage> stage = make_keywords({.words = {"lorem ipsum"}, .most = 0});
//   std::vector<double> scores(stage->scores().size());  // keywords.count, keywords.share
//
// Scores: NAME.count, the places of the text at which an entry ends (overlapping ones all count); NAME.share, the bytes
// that entries cover over all bytes (NaN for an empty text). With ignore_case both are lower-cased (Unicode's simple
// mapping) and bytes are those of the lower-cased text. With whole_words a letter, number or underscore may not stand
// beside the first or last character of an entry if that is one, too; an ideograph is a word of its own.
// Rules: NAME.count at most `most` (-1: any), NAME.share at most most_share; with keep instead NAME.count at least 1.
//
// All entries are looked for at once (Aho and Corasick 1975), so time grows with the text and the places found.
// Errors: IoError for a file that cannot be read; ConfigError for no entry at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::filters {

struct KeywordOptions {
  std::string name = "keywords";
  std::vector<std::string> words = {};
  std::string file = {};  // one entry a line, "#" begins a comment
  bool whole_words = true;
  bool ignore_case = true;
  bool keep = false;
  int64_t most = 0;
  double most_share = 1.0;
};

const std::vector<Field<KeywordOptions>>& keyword_fields();
std::unique_ptr<Stage> make_keywords(const KeywordOptions& options);

}  // namespace athanor::corpus::filters
