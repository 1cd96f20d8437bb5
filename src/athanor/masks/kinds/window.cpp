#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kWindow = {.name = "window",
                          .form = "window:W",
                          .meaning = "0 <= i - j < W: the last W keys, the query's own among them",
                          .is_causal = true,
                          .fewest = 1,
                          .most = 1,
                          .fewest_positions = [](const Numbers& numbers) { return numbers[0]; },
                          .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                            return std::make_unique<DifferenceRule>(0, numbers[0] - 1);
                          }};

}  // namespace athanor::masks::kinds
