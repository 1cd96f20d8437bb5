#include "athanor/masks/section.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace athanor::masks {

bool IndexSet::has(int64_t index) const {
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
           return range.first <= index && index <= range.last;
         });
}

bool IndexSet::has_all_of(const IndexSet& other) const {
  if (ranges.empty()) return true;
  if (other.ranges.empty()) return false;
  return std::all_of(other.ranges.begin(), other.ranges.end(), [&](const Range& inner) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      return range.first <= inner.first && inner.last <= range.last;
    });
  });
}

std::string IndexSet::text() const {
  std::vector<std::string> words;
  for (const Range& range : ranges)
    words.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                              : fmt::format("{}-{}", range.first, range.last));
  return fmt::format("{}", fmt::join(words, ","));
}

std::string PatternTerm::text() const {
  size_t count = numbers.size();
  if (count > kind->fewest && count <= kind->left_out.size() && numbers.back() == kind->left_out[count - 1])
    --count;
  std::string words(kind->name);
  for (size_t i = 0; i < count; ++i) words += fmt::format("{}{}", i == 0 ? ":" : ",", numbers[i]);
  return words;
}

const PatternTerm* PatternSection::find(const kinds::TermKind& kind) const {
  const auto found =
      std::find_if(terms.begin(), terms.end(), [&](const auto& term) { return term.kind == &kind; });
  return found == terms.end() ? nullptr : &*found;
}

std::string PatternSection::text() const {
  std::vector<std::string> of;
  if (!layers.ranges.empty()) of.push_back("layers " + layers.text());
  if (!heads.ranges.empty()) of.push_back("heads " + heads.text());
  return of.empty() ? terms_text : fmt::format("{}: {}", fmt::join(of, " "), terms_text);
}

}  // namespace athanor::masks
