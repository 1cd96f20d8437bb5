// The pattern of Split and Replace: {"Regex": "..."} or {"String": "..."}.
//
//   const Pattern pattern = parse_pattern(node.at("pattern"));
//   pattern.for_each_match(text, [&](size_t begin, size_t end) { ... });
//
// Thread rule: const methods from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "athanor/text/json_node.h"
#include "athanor/text/normalized_text.h"
#include "athanor/text/pre_tokenizers/regex.h"

namespace athanor::text::pre_tokenizers {

class Pattern {
 public:
  explicit Pattern(std::string literal) : what_(std::move(literal)) {}
  explicit Pattern(Regex regex) : what_(std::move(regex)) {}

  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& match) const;
  std::string replace_all(std::string_view text, std::string_view with) const;
  void replace_all(NormalizedText& text, std::string_view with) const;

 private:
  std::variant<std::string, Regex> what_;
};

Pattern parse_pattern(const JsonNode& node);

}  // namespace athanor::text::pre_tokenizers
