#include "athanor/masks/kinds/join.h"

#include "athanor/masks/kinds/row_bits.h"

namespace athanor::masks::kinds {

uint64_t AllOf::row(int64_t query, int64_t first_key) const {
  uint64_t keys = ~uint64_t{0};
  for (const auto& rule : rules_) keys = keys == 0 ? 0 : keys & rule->row(query, first_key);
  return keys;
}

Seen AllOf::block(const PairBlock& block) const {
  Seen seen = Seen::all;
  for (const auto& rule : rules_) {
    const Seen by_rule = rule->block(block);
    if (by_rule == Seen::none) return Seen::none;
    if (by_rule == Seen::some) seen = Seen::some;
  }
  return seen;
}

uint64_t AnyOf::row(int64_t query, int64_t first_key) const {
  uint64_t keys = 0;
  for (const auto& rule : rules_) keys |= rule->row(query, first_key);
  return keys;
}

Seen AnyOf::block(const PairBlock& block) const {
  Seen seen = Seen::none;
  for (const auto& rule : rules_) {
    const Seen by_rule = rule->block(block);
    if (by_rule == Seen::all) return Seen::all;
    if (by_rule == Seen::some) seen = Seen::some;
  }
  return seen;
}

bool sees_any(const MaskRule& rule, const PairBlock& block) {
  const Seen seen = rule.block(block);
  if (seen != Seen::some) return seen == Seen::all;
  const int64_t end = block.key + block.keys;
  for (int64_t query = block.query; query < block.query + block.queries; ++query)
    for (int64_t key = block.key; key < end; key += 64)
      if ((rule.row(query, key) & keys_between(key, end, key)) != 0) return true;
  return false;
}

}  // namespace athanor::masks::kinds
