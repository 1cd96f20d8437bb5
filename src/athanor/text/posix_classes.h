// [[:punct:]] and \p{Punct} of a regular expression, written out: releases of Oniguruma disagree about them (before
// 6.9.9 the symbols $+<=>^`|~ are missing), and a tokenizer must not depend on which one is installed.
//
//   spell_out_posix_classes("[[:punct:]\\s]");   // "[[\\p{P}$+<=>\\^`|~]\\s]"
//
// Other POSIX classes mean the same in all releases and stay. Errors: one that no release knows, which older ones take
// for a list of characters. Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>

namespace athanor::text {

std::string spell_out_posix_classes(std::string_view pattern);

}  // namespace athanor::text
