#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kBand = {.name = "band",
                        .form = "band:w",
                        .meaning = "|i - j| <= w: w keys on each side and the query's own",
                        .fewest = 1,
                        .most = 1,
                        .fewest_positions = [](const Numbers& numbers) { return numbers[0] + 1; },
                        .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                          return std::make_unique<DifferenceRule>(-numbers[0], numbers[0]);
                        }};

}  // namespace athanor::masks::kinds
