#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class DilatedRule : public MaskRule {
 public:
  DilatedRule(int64_t keys, int64_t step) : step_(step), reach_(keys * step), every_(every_bit_of(step)) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    const uint64_t reached = keys_between(query - reach_, query + reach_ + 1, first_key);
    return reached == 0 ? 0 : reached & keys_in_step(every_, step_, query, first_key);
  }
  Seen block(const PairBlock& block) const override {
    const Differences differences(block);
    if (!differences.touch(-reach_, reach_)) return Seen::none;
    // The largest multiple of the step among the differences that are within reach, counted from 0 upwards.
    const int64_t highest = std::min(differences.highest, reach_) + reach_;
    if (highest - highest % step_ - reach_ < differences.lowest) return Seen::none;
    return step_ == 1 && differences.are_within(-reach_, reach_) ? Seen::all : Seen::some;
  }

 private:
  int64_t step_, reach_;
  uint64_t every_;
};

}  // namespace

const TermKind kDilated = {
    .name = "dilated",
    .form = "dilated:w,d",
    .meaning = "j = i + d t, |t| <= w: w keys on each side, d apart, and the query's own",
    .is_repeatable = true,
    .fewest = 2,
    .most = 2,
    .fewest_positions = [](const Numbers& numbers) { return numbers[0] * numbers[1] + 1; },
    .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
      return std::make_unique<DilatedRule>(numbers[0], numbers[1]);
    }};

}  // namespace athanor::masks::kinds
