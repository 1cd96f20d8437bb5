// A pattern of attention (pattern.h) as its text says it: sections, of layers and heads each.
//
//   const std::vector<PatternSection> sections = parse_sections("heads 0-5: causal + band:256; heads 6-7: causal");
//
// Errors: ConfigError for text that is no pattern. Thread rule: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/masks/kinds/term_kind.h"

namespace athanor::masks {

// Numbers of layers or of heads: "0,2,5-7". Without any range: all.
struct IndexSet {
  struct Range {
    int64_t first = 0, last = 0;
  };
  std::vector<Range> ranges;  // ascending, apart from each other

  bool has(int64_t index) const;
  bool has_all_of(const IndexSet& other) const;
  int64_t largest() const { return ranges.empty() ? -1 : ranges.back().last; }
  std::string text() const;
};

struct PatternTerm {
  const kinds::TermKind* kind = nullptr;
  kinds::Numbers numbers;
  std::string text() const;
};

struct PatternSection {
  IndexSet layers, heads;
  std::vector<PatternTerm> terms;  // in the order of term_kinds()
  std::string terms_text;          // "causal + band:256"; sections with the same one mean the same

  const PatternTerm* find(const kinds::TermKind& kind) const;
  std::string text() const;
};

// What every message about a pattern begins with.
constexpr const char* kAttentionPattern = "attention pattern";

std::vector<PatternSection> parse_sections(std::string_view text);

}  // namespace athanor::masks
