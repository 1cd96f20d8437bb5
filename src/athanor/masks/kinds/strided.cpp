#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class StridedRule : public MaskRule {
 public:
  explicit StridedRule(int64_t step) : step_(step), every_(every_bit_of(step)) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    return keys_between(query - step_ + 1, query + step_, first_key) |
           keys_in_step(every_, step_, query, first_key);
  }
  Seen block(const PairBlock& block) const override {
    const Differences differences(block);
    if (differences.are_within(-step_, step_) || step_ == 1) return Seen::all;
    if (differences.touch(-step_, step_)) return Seen::some;
    const int64_t farthest = std::max(differences.highest, -differences.lowest);
    const int64_t nearest = differences.lowest > 0 ? differences.lowest : -differences.highest;
    return farthest - farthest % step_ < nearest ? Seen::none : Seen::some;
  }

 private:
  int64_t step_;
  uint64_t every_;
};

}  // namespace

const TermKind kStrided = {.name = "strided",
                           .form = "strided:s",
                           .meaning = "|i - j| < s, or s divides i - j (Sparse Transformer, with causal)",
                           .is_repeatable = true,
                           .fewest = 1,
                           .most = 1,
                           .fewest_positions = [](const Numbers& numbers) { return numbers[0] + 1; },
                           .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                             return std::make_unique<StridedRule>(numbers[0]);
                           }};

}  // namespace athanor::masks::kinds
