// How much of a text is addresses of the web.
//
//   url_bytes("See https://example.org/a%20b, there");   // 26: with the comma
//
// An address is http:// or https:// and all of these that follow: letters and digits of ASCII, $ - _ @ . & + / : = ? # ~
// ! * ( ) , and % before two hexadecimal digits; at least one. As in NeMo Curator. Thread rule: pure function.
#pragma once

#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

uint64_t url_bytes(std::string_view text);  // each is a character

}  // namespace athanor::corpus::heuristics
