#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kFull = {
    .name = "full",
    .form = "full",
    .meaning = "every pair, as where no term shows any; for patterns that have no other term",
    .fewest_positions = [](const Numbers&) -> int64_t { return 1; },
    .make = [](const Numbers&, const TermPlace&) -> std::unique_ptr<MaskRule> {
      return std::make_unique<DifferenceRule>(-kFar, kFar);
    }};

}  // namespace athanor::masks::kinds
