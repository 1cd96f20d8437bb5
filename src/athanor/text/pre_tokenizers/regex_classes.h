// Writes the classes of characters in a regular expression as the ranges that Unicode 16.0 has, so that a tokenizer does not
// depend on the Unicode of the installed Oniguruma: \p{...} of general categories, Alphabetic, Han and Punct, their
// negations, \w \s \d \W \S \D, and the POSIX classes [:alpha:] [:digit:] [:punct:] [:space:] [:word:] ....
//
//   spell_out_classes("\\p{Nd}+");   // "[\\x{30}-\\x{39}\\x{660}-\\x{669}...]+"
//
// Other properties (scripts) stay as they are. Error for a POSIX class that does not exist: Oniguruma would take it for a
// list of characters. Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::pre_tokenizers {

std::string spell_out_classes(std::string_view pattern);

}  // namespace athanor::text::pre_tokenizers
