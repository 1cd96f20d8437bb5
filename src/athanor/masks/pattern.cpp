#include "athanor/masks/pattern.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/masks/kinds/join.h"
#include "athanor/masks/kinds/row_bits.h"

namespace athanor::masks {
namespace {

using kinds::AllOf;
using kinds::AnyOf;
using kinds::TermPlace;
using kinds::TermUse;

bool is_limit(const PatternTerm& term) {
  return term.kind->use == TermUse::limits;
}

std::unique_ptr<AllOf> limits_of(const PatternSection& section, const TermPlace& place) {
  auto limits = std::make_unique<AllOf>();
  for (const PatternTerm& term : section.terms)
    if (is_limit(term)) limits->add(term.kind->make(term.numbers, place));
  return limits;
}

std::unique_ptr<MaskRule> rule_of(const PatternSection& section, TermPlace place) {
  std::unique_ptr<AllOf> rule = limits_of(section, place);
  auto shown = std::make_unique<AnyOf>();
  for (const PatternTerm& term : section.terms)
    if (!is_limit(term) && term.kind != &kinds::kRandom) shown->add(term.kind->make(term.numbers, place));
  if (const PatternTerm* random = section.find(kinds::kRandom)) {
    place.limits = rule.get();
    place.others = shown.get();
    shown->add(random->kind->make(random->numbers, place));
  }
  if (!std::all_of(section.terms.begin(), section.terms.end(), is_limit)) rule->add(std::move(shown));
  return rule;
}

// The first query without a key, or -1. Most see keys near their own, which are looked at first.
int64_t first_without_keys(const MaskRule& rule, int64_t length) {
  const auto sees = [&](int64_t query, int64_t key) {
    return (rule.row(query, key) & kinds::keys_between(key, length, key)) != 0;
  };
  for (int64_t query = 0; query < length; ++query) {
    bool any = sees(query, query / 64 * 64);
    for (int64_t key = 0; key < length && !any; key += 64) any = sees(query, key);
    if (!any) return query;
  }
  return -1;
}

// Whether what one head draws may leave a query without a key where another head's draw does not.
bool draws_decide(const PatternSection& section, int64_t length) {
  if (section.find(kinds::kRandom) == nullptr) return false;
  PatternSection fixed = section;
  std::erase_if(fixed.terms, [](const PatternTerm& term) { return term.kind == &kinds::kRandom; });
  const auto is_early = [](const PatternTerm& term) {
    return term.kind == &kinds::kCausal || term.kind == &kinds::kPrefix;
  };
  // Nothing else shows, and no limit hides a part of an earlier block: its own block or a whole one is seen by each query.
  if (std::all_of(fixed.terms.begin(), fixed.terms.end(), is_early)) return false;
  if (std::all_of(fixed.terms.begin(), fixed.terms.end(), is_limit)) return true;
  return first_without_keys(*rule_of(fixed, {.length = length}), length) >= 0;
}

}  // namespace

AttentionPattern AttentionPattern::parse(std::string_view text) {
  AttentionPattern pattern;
  pattern.sections_ = parse_sections(text);
  for (const PatternSection& section : pattern.sections_)
    pattern.text_ += (pattern.text_.empty() ? "" : "; ") + section.text();
  return pattern;
}

bool AttentionPattern::is_causal() const {
  return std::all_of(sections_.begin(), sections_.end(), [](const PatternSection& section) {
    bool limited = false, shown = false, shown_later = false;
    for (const PatternTerm& term : section.terms) {
      limited |= is_limit(term) && term.kind->is_causal;
      shown |= !is_limit(term);
      shown_later |= !is_limit(term) && !term.kind->is_causal;
    }
    return limited || (shown && !shown_later);
  });
}

bool AttentionPattern::is_plain_causal() const {
  return std::all_of(sections_.begin(), sections_.end(), [](const PatternSection& section) {
    return section.terms.size() == 1 && section.terms[0].kind == &kinds::kCausal;
  });
}

bool AttentionPattern::has_documents() const {
  return std::any_of(sections_.begin(), sections_.end(), [](const PatternSection& section) {
    return section.find(kinds::kDocuments) != nullptr;
  });
}

int64_t AttentionPattern::layers_named() const {
  int64_t count = 0;
  for (const PatternSection& section : sections_) count = std::max(count, section.layers.largest() + 1);
  return count;
}

int64_t AttentionPattern::heads_named() const {
  int64_t count = 0;
  for (const PatternSection& section : sections_) count = std::max(count, section.heads.largest() + 1);
  return count;
}

int AttentionPattern::find(int64_t layer, int64_t head) const {
  for (size_t i = 0; i < sections_.size(); ++i)
    if (sections_[i].layers.has(layer) && sections_[i].heads.has(head)) return static_cast<int>(i);
  return -1;
}

const PatternSection& AttentionPattern::section_of(int64_t layer, int64_t head) const {
  const int found = find(layer, head);
  if (found < 0)
    throw ConfigError(fmt::format("{} '{}': got no section for head {} of layer {}, expected one for each",
                                  kAttentionPattern, text_, head, layer),
                      "a last section without layers and heads is for all that are left");
  return sections_[static_cast<size_t>(found)];
}

void AttentionPattern::check_selectors(const PatternShape& shape) const {
  std::set<const PatternSection*> used;
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (int64_t head = 0; head < shape.heads; ++head) used.insert(&section_of(layer, head));
  for (const PatternSection& section : sections_) {
    const auto check_numbers = [&](const char* what, const IndexSet& set, int64_t count) {
      if (set.largest() >= count)
        throw ConfigError(fmt::format("{} '{}': got {} {} of a model of {}, expected numbers from 0 to {}",
                                      kAttentionPattern, section.text(), what, set.text(), count, count - 1));
    };
    check_numbers("layers", section.layers, shape.layers);
    check_numbers("heads", section.heads, shape.heads);
    if (used.count(&section) == 0)
      throw ConfigError(fmt::format("{} '{}': got a section that is never used, expected layers and heads "
                                    "that those before it leave",
                                    kAttentionPattern, section.text()),
                        "the first section that fits is taken");
  }
}

void AttentionPattern::check_queries(int64_t length, int64_t layer, int64_t head, uint64_t seed) const {
  const PatternSection& section = section_of(layer, head);
  const int64_t query = first_without_keys(*rule_of(section, {length, layer, head, seed}), length);
  if (query >= 0)
    throw ConfigError(
        fmt::format("{} '{}': got a query that sees no key, the one at position {} of {} (layer {}, head "
                    "{}), expected each to see one",
                    kAttentionPattern, section.terms_text, query, length, layer, head));
}

void AttentionPattern::check_fits(const PatternShape& shape, uint64_t seed) const {
  check_selectors(shape);
  for (const PatternSection& section : sections_)
    for (const PatternTerm& term : section.terms)
      if (const int64_t fewest = term.kind->fewest_positions(term.numbers); shape.length < fewest)
        throw ConfigError(
            fmt::format("{}: {}: got a sequence of {} positions, expected at least {}", kAttentionPattern,
                        term.text(), with_commas(shape.length), with_commas(fewest)),
            "a pattern wider than its sequences would have no effect");
  std::map<std::string_view, bool>
      of_each_head;  // by terms: whether heads that follow the first are looked at, too
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (int64_t head = 0; head < shape.heads; ++head) {
      const PatternSection& section = section_of(layer, head);
      const auto [known, is_first] = of_each_head.try_emplace(section.terms_text, false);
      if (is_first) known->second = draws_decide(section, shape.length);
      if (is_first || known->second) check_queries(shape.length, layer, head, seed);
    }
}

HeadRules AttentionPattern::rules(int64_t length, int64_t layer, int64_t first_head, int64_t heads,
                                  uint64_t seed) const {
  HeadRules made;
  std::vector<std::string_view> shared;  // by rule: its terms; "" where it is of one head alone
  for (int64_t head = first_head; head < first_head + heads; ++head) {
    const PatternSection& section = section_of(layer, head);
    const bool is_drawn = section.find(kinds::kRandom) != nullptr;
    const auto known = std::find(shared.begin(), shared.end(), section.terms_text);
    made.rule_of_head.push_back(static_cast<int32_t>(known - shared.begin()));
    if (known != shared.end()) continue;
    shared.push_back(is_drawn ? std::string_view() : section.terms_text);
    made.rules.push_back(rule_of(section, {length, layer, head, seed}));
  }
  return made;
}

AttentionMask mask_of(const AttentionPattern& pattern, const MaskRequest& request, int64_t layer,
                      uint64_t seed) {
  for (const auto* runs : {&request.positions.queries, &request.positions.keys})
    for (const PositionRun& run : *runs)
      check(run.first >= 0 && run.count >= 0 && run.first + run.count <= request.length,
            "{}: got positions {} to {}, expected some of a sequence of {}", kAttentionPattern, run.first,
            run.first + run.count - 1, request.length);
  const HeadRules of = pattern.rules(request.length, layer, request.first_head, request.heads, seed);
  std::vector<const MaskRule*> rules;
  for (const auto& rule : of.rules) rules.push_back(rule.get());
  return make_mask(request.positions, rules, of.rule_of_head);
}

}  // namespace athanor::masks
