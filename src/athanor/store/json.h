// JSON that came from outside: nothing is accepted silently.
//
//   const auto json = parse_json(env.read_text(path, kMaxBytes), path);
//
// Errors: an Error naming the file where the text is no JSON, gives a key of one object twice or nests deeper
// than 16. Thread rule: pure function.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace athanor {

nlohmann::json parse_json(std::string_view text, const std::string& file);

// What the library's exception says, without the "[json.exception...] " in front.
std::string_view json_reason(const std::exception& error);

}  // namespace athanor
