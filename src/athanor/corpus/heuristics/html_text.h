// How many characters of an HTML file a reader sees.
//
//   visible_chars("<p>a &amp; b</p><script>x</script>");   // 5
//
// All that stands outside tags, comments and the elements script and style; a character reference ("&amp;") is one
// character. Spaces count, as in NeMo Curator. Thread rule: pure function.
#pragma once

#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

uint64_t visible_chars(std::string_view html);

}  // namespace athanor::corpus::heuristics
