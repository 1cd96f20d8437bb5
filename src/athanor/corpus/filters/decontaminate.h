// The stage "decontaminate": finds documents that hold text of evaluation sets.
//
//   const std::unique_ptr<Stage> stage = make_decontaminate({.files = {"tasks/arc.jsonl"}, .keys = {"question"}});
//   std::vector<double> scores(stage->scores().size());  // decontaminate.arc
//
// An n-gram is ngram (13) words in a row, as normal_words.h defines words. An entry of a task with at least ngram words
// gives all its n-grams. One with at least least_words (8) gives one n-gram, its whole. A shorter one is left out: its
// words are too common. Score decontaminate.TASK: the places of the document at which an n-gram of the task begins. Rule: at
// most `most` (0). N-grams are kept as 64-bit hashes: G of
// them and P places of a corpus give G * P / 2^64 false hits on average, 5e-4 for 10^6 and 10^10.
// The method is that of GPT-3 (Brown et al. 2020, appendix C) and of datatrove.
//
// A file, compressed or not, is JSON lines if its first character is "{": each of `keys` that an object has is an entry
// (a string, or each string of an array). Else each line is an entry. A task's name is the file's name without folders
// and all from the first dot on. Errors: IoError for a file that cannot be read; Error naming file and line for broken
// JSON or an object without any of the keys, for two files of one name, and for a file of which no entry is long enough.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::filters {

struct DecontaminateOptions {
  std::vector<std::string> files = {};
  std::vector<std::string> keys = {"text"};
  int64_t ngram = 13;
  int64_t least_words = 8;
  int64_t most = 0;
};

const std::vector<Field<DecontaminateOptions>>& decontaminate_fields();
std::unique_ptr<Stage> make_decontaminate(const DecontaminateOptions& options);

}  // namespace athanor::corpus::filters
