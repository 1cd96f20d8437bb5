// What commands say on standard output. Thread rule: one thread at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace athanor {

using Json = nlohmann::ordered_json;

void print(std::string_view text);
// A line of JSON; bytes that are not UTF-8 are replaced.
void print_json(const Json& document);

}  // namespace athanor
