// Copies parts of JSON text as they stand, and writes strings of JSON.
//
//   std::string rest;
//   copy_json_fields(R"({"text": "a", "n": 1e999, "m": {"by": "b", "at": 3}})", {{0}, {2, 0}}, rest);
//   // rest is now {"n":1e999,"m":{"at":3}}
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

// The numbers, from 0, of the fields that lead from an object to a value in it: {2, 0} is the first field of the object
// in the third field.
using JsonFieldPath = std::vector<size_t>;

// Appends a valid JSON object to `out` without the fields that `left_out` leads to. Values keep their bytes, but line
// ends between them become spaces: the copy is one line.
void copy_json_fields(std::string_view object, const std::vector<JsonFieldPath>& left_out, std::string& out);

// The bytes of the value that the path leads to; "" if there is none.
std::string_view json_value_at(std::string_view object, const JsonFieldPath& path);

// Appends UTF-8 text to `out` as a JSON string in quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace athanor::documents
