// Replaces [[:punct:]] and \p{Punct} in a regular expression by what they mean. Releases of Oniguruma disagree about
// them (before 6.9.9 the symbols $+<=>^`|~ are missing), and a tokenizer must not depend on the installed release.
//
//   spell_out_posix_classes("[[:punct:]\\s]");   // "[[\\p{P}$+<=>\\^`|~]\\s]"
//
// The other POSIX classes mean the same in all releases and stay. Error for a class that no release knows: old releases
// would take it for a list of characters. Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::pre_tokenizers {

std::string spell_out_posix_classes(std::string_view pattern);

}  // namespace athanor::text::pre_tokenizers
