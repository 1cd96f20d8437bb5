#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kBlockBand = {
    .name = "block_band",
    .form = "block_band:b,m",
    .meaning = "|i/b - j/b| <= m, rounded down: the query's own block of b positions and m on each side",
    .is_repeatable = true,
    .fewest = 2,
    .most = 2,
    .fewest_positions = [](const Numbers& numbers) { return numbers[0] * numbers[1] + 1; },
    .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
      return std::make_unique<EqualParts>(numbers[0], numbers[1]);
    }};

}  // namespace athanor::masks::kinds
