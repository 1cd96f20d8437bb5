// BERT's vocab.txt, a token a line, as a tokenizer.json of type WordPiece.
//
//   std::string json = import_bert_vocabulary(env, "vocab.txt");
//
// tokenizer_config.json beside it says whether case is kept (do_lower_case, strip_accents, tokenize_chinese_chars); without
// it, text is put in lower case unless the vocabulary has a token that begins with an upper-case letter.
// [CLS] and [SEP] stand around a text, [CLS] A [SEP] B [SEP] around a pair, where the vocabulary has them.
// Errors: Error naming file and line. Thread rule: any thread.
#pragma once

#include <string>

#include "athanor/base/file.h"

namespace athanor::text::formats {

std::string import_bert_vocabulary(Env& env, const std::string& path);

}  // namespace athanor::text::formats

namespace athanor {
using text::formats::import_bert_vocabulary;
}  // namespace athanor
