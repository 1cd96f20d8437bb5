// What a file that is not TOML probably is, as a hint. Private to config/. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::config {

// `description` is the parser's word, `line` (from 1) where it stopped.
std::string not_toml_hint(std::string_view text, std::string_view description, uint32_t line);

}  // namespace athanor::config
