#include "athanor/text/pre_tokenizers/regex_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/properties.h"

namespace athanor::text::pre_tokenizers {
namespace {

using unicode::Category;
using Contains = std::function<bool(uint32_t)>;

constexpr std::array<std::string_view, 30> kShortNames = {
    "cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl", "no", "pc", "pd", "ps",
    "pe", "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "cs", "co"};
constexpr std::array<std::string_view, 30> kLongNames = {"unassigned",
                                                         "uppercaseletter",
                                                         "lowercaseletter",
                                                         "titlecaseletter",
                                                         "modifierletter",
                                                         "otherletter",
                                                         "nonspacingmark",
                                                         "spacingmark",
                                                         "enclosingmark",
                                                         "decimalnumber",
                                                         "letternumber",
                                                         "othernumber",
                                                         "connectorpunctuation",
                                                         "dashpunctuation",
                                                         "openpunctuation",
                                                         "closepunctuation",
                                                         "initialpunctuation",
                                                         "finalpunctuation",
                                                         "otherpunctuation",
                                                         "mathsymbol",
                                                         "currencysymbol",
                                                         "modifiersymbol",
                                                         "othersymbol",
                                                         "spaceseparator",
                                                         "lineseparator",
                                                         "paragraphseparator",
                                                         "control",
                                                         "format",
                                                         "surrogate",
                                                         "privateuse"};

bool is_posix_punctuation(uint32_t c) {
  return is_punctuation(c);  // with $+<=>^`|~, as in Oniguruma since 6.9.9
}

// The letter of a group of categories, or its name; 0 for none.
char group_of(std::string_view name) {
  static const std::map<std::string_view, char> groups = {
      {"l", 'l'},         {"letter", 'l'}, {"m", 'm'},     {"mark", 'm'},       {"n", 'n'},
      {"number", 'n'},    {"p", 'p'},      {"s", 's'},     {"symbol", 's'},     {"z", 'z'},
      {"separator", 'z'}, {"c", 'c'},      {"other", 'c'}, {"punctuation", 'p'}};
  const auto found = groups.find(name);
  return found == groups.end() ? '\0' : found->second;
}

Contains property_named(std::string_view name) {
  if (const char group = group_of(name))
    return [group](uint32_t c) { return kShortNames[static_cast<size_t>(unicode::category(c))][0] == group; };
  for (const auto& names : {kShortNames, kLongNames})
    if (const auto found = std::ranges::find(names, name); found != names.end())
      return [category = static_cast<Category>(found - names.begin())](uint32_t c) {
        return unicode::category(c) == category;
      };
  if (name == "alphabetic" || name == "alpha") return unicode::is_alphabetic;
  if (name == "han") return unicode::is_han;
  if (name == "punct") return is_posix_punctuation;
  if (name == "space" || name == "whitespace") return unicode::is_white_space;
  if (name == "word") return is_word;
  if (name == "digit") return property_named("nd");
  return nullptr;
}

Contains posix_named(std::string_view name) {
  if (name == "alnum")
    return [](uint32_t c) {
      return unicode::is_alphabetic(c) || unicode::category(c) == Category::decimal_number;
    };
  if (name == "cntrl") return property_named("cc");
  if (name == "lower") return property_named("ll");
  if (name == "upper") return property_named("lu");
  if (name == "alpha" || name == "digit" || name == "punct" || name == "space" || name == "word")
    return property_named(name);
  return nullptr;
}

// Spelling out a class takes a walk over all characters; a pattern has the same one many times.
class Spelling {
 public:
  const std::string& operator()(const std::string& name, bool negated, const Contains& contains) {
    std::string& text = spelled_[(negated ? "^" : "") + name];
    if (text.empty()) write(negated, contains, text);
    return text;
  }

 private:
  static void write(bool negated, const Contains& contains, std::string& text) {
    constexpr uint32_t kEnd = 0x110000, kSurrogates = 0xD800, kBehindSurrogates = 0xE000;
    text = negated ? "[^" : "[";
    for (uint32_t c = 0; c < kEnd; ++c) {
      if (c == kSurrogates) c = kBehindSurrogates;
      if (!contains(c)) continue;
      const uint32_t first = c;
      while (c + 1 < kEnd && c + 1 != kSurrogates && contains(c + 1)) ++c;
      fmt::format_to(std::back_inserter(text), "\\x{{{:X}}}", first);
      if (c > first) fmt::format_to(std::back_inserter(text), "-\\x{{{:X}}}", c);
    }
    text += ']';
  }

  std::map<std::string, std::string> spelled_;
};

// A \p{Name}, \P{Name} or \p{^Name} at the front: its name without spaces, underscores and case; its length or 0.
size_t property_at(std::string_view pattern, std::string& name, bool& negated) {
  if (pattern.size() < 4 || (pattern[1] != 'p' && pattern[1] != 'P') || pattern[2] != '{') return 0;
  const size_t end = pattern.find('}');
  if (end == std::string_view::npos) return 0;
  negated = pattern[1] == 'P';
  name.clear();
  for (const char c : pattern.substr(3, end - 3)) {
    if (c == '^' && name.empty())
      negated = !negated;
    else if (c != ' ' && c != '_' && c != '-')
      name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return end + 1;
}

constexpr std::array<std::string_view, 5> kSameEverywhere = {"ascii", "blank", "graph", "print", "xdigit"};

}  // namespace

std::string spell_out_classes(std::string_view pattern) {
  std::string out;
  Spelling spelled;
  int depth = 0;  // of brackets
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view rest = pattern.substr(at);
    if (rest[0] == '\\') {
      std::string name;
      bool negated = false;
      size_t size = property_at(rest, name, negated);
      if (size == 0 && rest.size() > 1) {
        static const std::map<char, const char*> shorthands = {
            {'w', "word"}, {'s', "space"}, {'d', "digit"}, {'W', "^word"}, {'S', "^space"}, {'D', "^digit"}};
        if (const auto found = shorthands.find(rest[1]); found != shorthands.end()) {
          negated = found->second[0] == '^';
          name = found->second + (negated ? 1 : 0);
          size = 2;
        }
      }
      const Contains contains = size > 0 ? property_named(name) : nullptr;
      if (size == 0) size = std::min<size_t>(2, rest.size());
      out += contains ? spelled(name, negated, contains) : std::string(rest.substr(0, size));
      at += size;
      continue;
    }
    if (depth > 0 && rest.starts_with("[:")) {
      const size_t end = rest.find(":]");
      const std::string_view inside =
          end == std::string_view::npos ? std::string_view() : rest.substr(2, end - 2);
      const bool negated = inside.starts_with('^');
      const std::string name(inside.substr(negated ? 1 : 0));
      if (!name.empty() && std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; })) {
        const Contains contains = posix_named(name);
        if (!contains && std::ranges::find(kSameEverywhere, name) == kSameEverywhere.end())
          fail("regex '{}': [:{}:] is no POSIX class", pattern, inside);
        out += contains ? spelled(name, negated, contains) : std::string(rest.substr(0, end + 2));
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
