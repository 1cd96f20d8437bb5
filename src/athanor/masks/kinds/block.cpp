#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kBlock = {
    .name = "block",
    .form = "block:b",
    .meaning = "i/b = j/b, rounded down: the keys of the query's own block of b positions",
    .is_repeatable = true,
    .fewest = 1,
    .most = 1,
    .fewest_positions = [](const Numbers& numbers) { return numbers[0]; },
    .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
      return std::make_unique<EqualParts>(numbers[0], 0);
    }};

}  // namespace athanor::masks::kinds
