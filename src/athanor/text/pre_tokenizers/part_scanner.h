// The scanners of DeepSeek V3's three expressions, which word_scanner.h offers: each finds the end of the match, or of the
// stretch without one, that begins at `at`.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::pre_tokenizers {

size_t deepseek_digits_end(std::string_view text, size_t at);
size_t deepseek_cjk_end(std::string_view text, size_t at);
size_t deepseek_words_end(std::string_view text, size_t at);

constexpr std::string_view kDeepseekDigitsRegex = R"(\p{N}{1,3})";
constexpr std::string_view kDeepseekCjkRegex = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr std::string_view kDeepseekWordsRegex =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

}  // namespace athanor::text::pre_tokenizers
