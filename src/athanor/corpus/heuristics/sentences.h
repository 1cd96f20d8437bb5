// How many sentences a line holds.
//
//   count_sentences("It is 3.14. Is it? \"Yes.\"");   // 3
//
// A sentence ends at a run of terminal marks (char_kinds.h) with the closing quotes and brackets right behind it, if a
// space or the end of the line comes then, or if the last mark is not ASCII: Chinese writes no space. What is left at
// the end is a sentence too, unless it is blank. An abbreviation ("Mr. ") ends one as well: the splitters of NLTK and
// spaCy, which datatrove uses, know some of them, so that their counts are a little lower.
// Thread rule: pure function.
#pragma once

#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

uint32_t count_sentences(std::string_view line);

}  // namespace athanor::corpus::heuristics
