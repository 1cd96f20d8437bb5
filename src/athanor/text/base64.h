// Base64 (RFC 4648, with padding).
//
//   decode_base64("YWI=");  // "ab"; none for anything that is not base64
//
// Thread rule: pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace athanor::text {

std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace athanor::text
