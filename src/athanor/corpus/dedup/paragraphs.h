// Paragraphs for deduplication: the lines of a text.
//
//   for (const TextRange& line : paragraphs("one\n two \n")) use(line);  // [0, 4) and [4, 10)
//
// A paragraph goes from the beginning of a line to behind its line feed, so that the paragraphs of a text are the
// text. Its key is that of its bytes without white space at the ends; one with fewer than min_length such bytes has
// no key.
// Source: the paragraph dedup of Dolma, which asks a Bloom filter; keys that are sorted have no false positives, and
// which one stays does not depend on the order of work. Thread rule: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "athanor/corpus/dedup/text_range.h"

namespace athanor::corpus::dedup {

std::vector<TextRange> paragraphs(std::string_view text);  // of less than 4 GiB

}  // namespace athanor::corpus::dedup
