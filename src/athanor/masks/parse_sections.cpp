#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/masks/section.h"

namespace athanor::masks {
namespace {

using kinds::kMostOfNumber;
using kinds::Numbers;
using kinds::TermKind;
using kinds::TermUse;

constexpr std::string_view kSpaces = " \t\r\n";

[[noreturn]] void refuse(std::string_view what, const std::string& got_and_expected,
                         const std::string& hint = "") {
  throw ConfigError(fmt::format("{} '{}': {}", kAttentionPattern, printable(what), got_and_expected), hint);
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(at, from), text.size());
    parts.push_back(trimmed(text.substr(from, end - from)));
    from = end + 1;
  }
  return parts;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Digits alone: no sign, no spaces.
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '-') return std::nullopt;
  return number;
}

// "0,2,5-7" of `layers` or `heads`.
IndexSet parse_indices(std::string_view section, std::string_view word, std::string_view text) {
  IndexSet set;
  for (const std::string_view part : split(text, ',')) {
    const std::vector<std::string_view> ends = split(part, '-');
    const auto first = number_of(ends.front()), last = number_of(ends.back());
    if (ends.size() > 2 || !first || !last || *first > *last || *last > kMostOfNumber)
      refuse(section,
             fmt::format("got {} '{}', expected numbers from 0 on and ranges of them, such as 0,2,5-7", word,
                         printable(part)));
    set.ranges.push_back({*first, *last});
  }
  std::sort(set.ranges.begin(), set.ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<IndexSet::Range> joined;
  for (const IndexSet::Range& range : set.ranges)
    if (joined.empty() || joined.back().last + 1 < range.first)
      joined.push_back(range);
    else
      joined.back().last = std::max(joined.back().last, range.last);
  set.ranges = joined;
  return set;
}

std::string name_of(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of(": \t\r\n")));
}

bool is_selector(std::string_view text) {
  const std::string word = name_of(text);
  return word == "layers" || word == "heads";
}

// Takes "layers 0-5 heads 2:" off the front.
std::string_view parse_selector(std::string_view text, PatternSection& section) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    refuse(text, "got no ':' behind its layers and heads, expected terms there",
           "such as 'heads 0-5: causal + band:256'");
  std::string_view rest = text.substr(0, colon);
  while (!rest.empty()) {
    const std::string word = name_of(rest);
    if (word != "layers" && word != "heads")
      refuse(text, fmt::format("got '{}', expected layers or heads", printable(word)));
    rest = trimmed(rest.substr(word.size()));
    // Up to the other word; spaces behind commas are no ends.
    const size_t next = std::min({rest.find("layers"), rest.find("heads"), rest.size()});
    IndexSet& set = word == "layers" ? section.layers : section.heads;
    if (!set.ranges.empty()) refuse(text, fmt::format("got {} twice, expected them once", word));
    set = parse_indices(text, word, trimmed(rest.substr(0, next)));
    rest = rest.substr(next);
  }
  return trimmed(text.substr(colon + 1));
}

const TermKind& kind_of(std::string_view term, bool is_first) {
  const std::string name = name_of(term);
  if (const TermKind* kind = kinds::find_term_kind(name)) return *kind;
  std::vector<std::string> names, forms;
  for (const TermKind* kind : kinds::term_kinds()) {
    names.emplace_back(kind->name);
    forms.emplace_back(kind->form);
  }
  if (is_first) names.insert(names.end(), {"layers", "heads"});
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(
      fmt::format("{}: got the term '{}', expected one of {}", kAttentionPattern, printable(term),
                  fmt::join(forms, "  ")),
      nearest.empty() ? "'athanor attention --help' explains them" : "did you mean '" + nearest + "'?");
}

PatternTerm parse_term(std::string_view text, bool is_first) {
  if (text.empty()) refuse(text, "got an empty term, expected one on each side of '+'");
  PatternTerm term{&kind_of(text, is_first), {}};
  const TermKind& kind = *term.kind;
  const std::string_view rest = trimmed(text.substr(kind.name.size()));
  if (!rest.empty() && rest[0] != ':')
    refuse(text, fmt::format("got '{}' behind {}, expected '+' or ':'", printable(rest), kind.name));
  const std::vector<std::string_view> words =
      rest.empty() ? std::vector<std::string_view>() : split(rest.substr(1), ',');
  if (words.size() < kind.fewest || words.size() > kind.most)
    refuse(text, fmt::format("got {} number{}, expected {}", words.size(), words.size() == 1 ? "" : "s",
                             kind.form));
  for (const std::string_view word : words) {
    const std::optional<int64_t> number = number_of(word);
    const int64_t least = kind.expected != nullptr && kind.fewest < kind.most ? 0 : 1;
    if (!number || *number < least || *number > kMostOfNumber)
      refuse(text, fmt::format("got '{}', expected a whole number from {} to {}", printable(word), least,
                               with_commas(kMostOfNumber)));
    term.numbers.push_back(*number);
  }
  while (kind.most <= kind.left_out.size() && term.numbers.size() < kind.most)
    term.numbers.push_back(kind.left_out[term.numbers.size()]);
  const std::string expected = kind.expected == nullptr ? "" : kind.expected(term.numbers);
  if (!expected.empty())
    refuse(text, fmt::format("got {}, expected {}", fmt::join(term.numbers, ","), expected));
  return term;
}

// Terms that say the same twice, or that another one leaves without effect.
void check_together(std::string_view text, PatternSection& section) {
  for (size_t i = 1; i < section.terms.size(); ++i) {
    const PatternTerm &before = section.terms[i - 1], &term = section.terms[i];
    if (term.kind == before.kind && (!term.kind->is_repeatable || term.numbers == before.numbers))
      refuse(text,
             fmt::format("got {} and {}, expected {} once", before.text(), term.text(), term.kind->name));
  }
  if (const PatternTerm* prefix = section.find(kinds::kPrefix);
      prefix != nullptr && section.find(kinds::kCausal) != nullptr)
    refuse(text,
           fmt::format("got causal beside {}, which it leaves without effect, expected one of them",
                       prefix->text()),
           "prefix is causal behind its first p positions by itself");
  const auto is_other = [](const PatternTerm& term) {
    return term.kind->use == TermUse::shows && term.kind != &kinds::kFull;
  };
  if (section.find(kinds::kFull) != nullptr &&
      std::any_of(section.terms.begin(), section.terms.end(), is_other))
    refuse(text, "got full beside terms that show less, expected one or the others");
}

PatternSection parse_section(std::string_view text) {
  if (text.empty())
    throw ConfigError(fmt::format("{}: got an empty section, expected terms such as 'causal + window:1024'",
                                  kAttentionPattern));
  PatternSection section;
  const std::string_view terms = is_selector(text) ? parse_selector(text, section) : text;
  const std::vector<std::string_view> words = split(terms, '+');
  for (size_t i = 0; i < words.size(); ++i) section.terms.push_back(parse_term(words[i], i == 0));
  const auto all = kinds::term_kinds();
  const auto rank = [&](const PatternTerm& term) {
    return std::find(all.begin(), all.end(), term.kind) - all.begin();
  };
  std::sort(section.terms.begin(), section.terms.end(), [&](const auto& a, const auto& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.numbers < b.numbers;
  });
  check_together(text, section);
  // Beside limits it says nothing: without terms that show, all pairs are shown.
  if (section.terms.size() > 1)
    std::erase_if(section.terms, [](const auto& term) { return term.kind == &kinds::kFull; });
  std::vector<std::string> parts;
  for (const PatternTerm& term : section.terms) parts.push_back(term.text());
  section.terms_text = fmt::format("{}", fmt::join(parts, " + "));
  return section;
}

}  // namespace

std::vector<PatternSection> parse_sections(std::string_view text) {
  std::vector<PatternSection> sections;
  for (const std::string_view part : split(text, ';')) {
    PatternSection section = parse_section(part);
    for (const PatternSection& before : sections)
      if (before.layers.has_all_of(section.layers) && before.heads.has_all_of(section.heads))
        refuse(part,
               fmt::format("got a section that is never used, expected layers and heads that '{}' leaves",
                           before.text()),
               "the first section that fits is taken");
    sections.push_back(std::move(section));
  }
  return sections;
}

}  // namespace athanor::masks
