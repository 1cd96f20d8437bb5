// tiktoken's rank files: a token in base64 and its rank on each line.
//
//   std::string json = import_tiktoken(env, "cl100k_base.tiktoken", "cl100k", {{"<|endoftext|>", 100257}});
//
// A file does not say how text is cut into words; `pattern` does, by a name (tokenizer_patterns()) or as a regular
// expression. Errors: Error naming file and line. Thread rule: any thread.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/text/tokenizer_writer.h"

namespace athanor::text::formats {

bool is_tiktoken(std::string_view bytes);
std::string import_tiktoken(Env& env, const std::string& path, const std::string& pattern,
                            const TokenIds& special_tokens);

}  // namespace athanor::text::formats

namespace athanor {
using text::formats::import_tiktoken;
using text::formats::is_tiktoken;
}  // namespace athanor
