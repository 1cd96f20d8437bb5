// Helpers of the config tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/config/load.h"

namespace athanor::tests {

inline Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "first.toml", "", overrides);
}

// The message of the ConfigError that reading throws, with its hint behind " | "; "" where it throws none.
inline std::string parse_error(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

inline void expect_error(const std::string& text, const std::vector<std::string>& parts,
                         const std::vector<std::string>& overrides = {}) {
  const std::string message = parse_error(text, overrides);
  for (const auto& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "message: " << message << "\nlacks: " << part;
}

}  // namespace athanor::tests
