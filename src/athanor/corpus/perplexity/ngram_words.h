// The words that n-gram models count, in any language.
//
//   for_each_ngram_word("Don't stop.\nEnd", true, [](std::string_view word) { ... });
//   // don ' t stop . \n end \n
//
// A word is a run of letters, marks, digits and underscores; an ideograph, hiragana or katakana is a word of its own, as
// is any other character that is not a space. No word holds a line feed, so "\n" says that a line with words
// in it has ended. A byte that is not UTF-8 is a word. Lower case is Unicode's simple mapping, in no language's rules.
// Thread rule: a pure function.
#pragma once

#include <functional>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::perplexity {

constexpr std::string_view kEndOfLineWord = "\n";

void for_each_ngram_word(std::string_view text, bool lowercase,
                         const std::function<void(std::string_view word)>& take);

}  // namespace athanor::corpus::perplexity
