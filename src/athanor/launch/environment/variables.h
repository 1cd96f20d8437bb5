// Environment variables by name, with range checks for numbers.
//
//   const Variables variables([](const char* name) { return std::getenv(name); });
//   const std::optional<int> size = variables.number("WORLD_SIZE", 1, kMostRanks);
//
// Thread rule: as that of the look-up. Errors: ConfigError naming the variable, what it is and what was expected.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "athanor/base/namespaces.h"

namespace athanor::launch::environment {

constexpr int kMostRanks = 1 << 20;

class Variables {
 public:
  // `lookup` returns a variable's value, or null where it is not set.
  explicit Variables(std::function<const char*(const char* name)> lookup) : lookup_(std::move(lookup)) {}
  bool has(const char* name) const { return name != nullptr && lookup_(name) != nullptr; }
  std::string text(const char* name) const;  // "" if it is not set
  std::optional<int> number(const char* name, int least, int most) const;

 private:
  std::function<const char*(const char* name)> lookup_;
};

}  // namespace athanor::launch::environment
