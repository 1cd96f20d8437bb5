// Strict parsing of JSON from outside.
//
//   const auto json = parse_json(env.read_text(path, kMaxBytes), path);
//
// Errors: Error naming the file where the text is no JSON, repeats a key within an object or nests deeper than 16.
// Thread rule: pure function.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::store {

nlohmann::json parse_json(std::string_view text, const std::string& file);

// The library's error message without its prefix "[json.exception...] ".
std::string_view json_reason(const std::exception& error);

}  // namespace athanor::store
