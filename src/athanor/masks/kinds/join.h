// Rules made of rules.
//
//   AllOf rule;                              // a pair must satisfy all of them; without any: every pair
//   rule.add(std::make_unique<DifferenceRule>(0, kFar));
//
// AnyOf is the same for pairs that satisfy at least one; without any: none. Thread rule: values that do not change once made.
#pragma once

#include <memory>
#include <vector>

#include "athanor/masks/attention_mask.h"

namespace athanor::masks::kinds {

class AllOf : public MaskRule {
 public:
  void add(std::unique_ptr<MaskRule> rule) { rules_.push_back(std::move(rule)); }
  uint64_t row(int64_t query, int64_t first_key) const override;
  Seen block(const PairBlock& block) const override;

 private:
  std::vector<std::unique_ptr<MaskRule>> rules_;
};

class AnyOf : public MaskRule {
 public:
  void add(std::unique_ptr<MaskRule> rule) { rules_.push_back(std::move(rule)); }
  uint64_t row(int64_t query, int64_t first_key) const override;
  Seen block(const PairBlock& block) const override;

 private:
  std::vector<std::unique_ptr<MaskRule>> rules_;
};

// Whether any pair of a block is seen.
bool sees_any(const MaskRule& rule, const PairBlock& block);

}  // namespace athanor::masks::kinds
