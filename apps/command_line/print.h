// Printing of commands: results on standard output, warnings on standard error. Thread rule: one thread at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::apps {

using Json = nlohmann::ordered_json;

void print(std::string_view text);
// A line of JSON; bytes that are not UTF-8 are replaced.
void print_json(const Json& document);
// Lines on standard error: "athanor: warning: TEXT".
void print_warnings(const std::vector<std::string>& texts);

}  // namespace athanor::apps
