// Small searches that several families of rules share, with A-Z and a-z being the same.
//
//   if (contains_any(lower_ascii(line), kPolicyPhrases)) { ... }
//
// Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

// Words of notices on privacy and cookies, which C4's filter looks for.
inline constexpr auto kPolicyPhrases = std::to_array<std::string_view>(
    {"terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"});

inline std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return lower;
}

inline bool contains(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

inline bool contains_any(std::string_view text, std::span<const std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [text](std::string_view phrase) { return contains(text, phrase); });
}

inline bool ends_with_any(std::string_view text, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [text](std::string_view end) { return text.ends_with(end); });
}

inline bool starts_with_any(std::string_view text, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [text](std::string_view start) { return text.starts_with(start); });
}

}  // namespace athanor::corpus::heuristics
