// Extended grapheme clusters (UAX #29) by Unicode 16.0: what a reader takes for one character. The rule for Indic conjuncts
// (GB9c) is left out.
//
//   for (size_t at = 0; at < text.size();) { at = cluster_end(text, at); }
//
// A byte that is not UTF-8 is a cluster by itself. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::unicode {

size_t cluster_end(std::string_view text, size_t at);

}  // namespace athanor::text::unicode
