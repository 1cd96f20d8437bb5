// SentencePiece's .model files (a protocol buffer: pieces, how it was trained, how text is normalized) as a tokenizer.json.
//
//   std::string bytes = env.read_text("spm.model", 1 << 28);
//   if (is_sentencepiece(bytes)) { std::string json = sentencepiece_json(bytes, "spm.model"); }
//
// Models of type unigram, bpe, word and char are read. Ids are SentencePiece's: scores are added as it adds them, control
// symbols such as <s> are found in no text, a run of unknown characters is one <unk>. libsentencepiece is not used: it does
// not give out the map of characters, and a checkpoint keeps one kind of tokenizer.
// Errors: Error naming the file for a damaged one, and for what has no counterpart (pieces that are never used in a bpe
// model, white space as a suffix). Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor::text::formats {

bool is_sentencepiece(std::string_view bytes);
std::string sentencepiece_json(std::string_view bytes, const std::string& name);

}  // namespace athanor::text::formats

namespace athanor {
using text::formats::is_sentencepiece;
using text::formats::sentencepiece_json;
}  // namespace athanor
