#include "athanor/text/pre_tokenizers/posix_classes.h"

#include <algorithm>
#include <array>

#include "athanor/base/check.h"

namespace athanor::text::pre_tokenizers {
namespace {

constexpr std::array<std::string_view, 13> kSameEverywhere = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                                              "digit", "graph", "lower", "print", "space",
                                                              "upper", "word",  "xdigit"};

std::string punctuation(bool negated) {
  return std::string(negated ? "[^" : "[") + R"(\p{P}$+<=>\^`|~])";
}

// The length of \p{Punct}, \P{punct} or \p{^Punct} at the front, and whether it is negated; 0 where there is none.
size_t punctuation_property(std::string_view pattern, bool& negated) {
  if (pattern.size() < 4 || (pattern[1] != 'p' && pattern[1] != 'P') || pattern[2] != '{') return 0;
  const size_t end = pattern.find('}');
  if (end == std::string_view::npos) return 0;
  negated = pattern[1] == 'P';
  std::string name;
  for (const char c : pattern.substr(3, end - 3)) {
    if (c == '^' && name.empty())
      negated = !negated;
    else if (c != ' ' && c != '_' && c != '-')
      name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return name == "punct" ? end + 1 : 0;
}

}  // namespace

std::string spell_out_posix_classes(std::string_view pattern) {
  std::string out;
  int depth = 0;  // of brackets
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view rest = pattern.substr(at);
    if (rest[0] == '\\') {
      bool negated = false;
      const size_t size = punctuation_property(rest, negated);
      out += size > 0 ? punctuation(negated) : std::string(rest.substr(0, 2));
      at += size > 0 ? size : 2;
      continue;
    }
    if (depth > 0 && rest.starts_with("[:")) {
      const size_t end = rest.find(":]");
      const std::string_view inside =
          end == std::string_view::npos ? std::string_view() : rest.substr(2, end - 2);
      const bool negated = inside.starts_with('^');
      const std::string_view name = inside.substr(negated ? 1 : 0);
      if (!name.empty() && std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; })) {
        if (name == "punct")
          out += punctuation(negated);
        else if (std::ranges::find(kSameEverywhere, name) != kSameEverywhere.end())
          out += rest.substr(0, end + 2);
        else
          fail("regex '{}': [:{}:] is no POSIX class", pattern, inside);
        at += end + 2;
        continue;
      }
    }
    if (rest[0] == '[') ++depth;
    if (rest[0] == ']' && depth > 0) --depth;
    out += rest[0];
    ++at;
    // A bracket right behind the opening one, or behind its ^, is a character of the set.
    if (rest[0] == '[') {
      if (at < pattern.size() && pattern[at] == '^') out += pattern[at++];
      if (at < pattern.size() && pattern[at] == ']') out += pattern[at++];
    }
  }
  return out;
}

}  // namespace athanor::text::pre_tokenizers
