#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kCausal = {.name = "causal",
                          .form = "causal",
                          .meaning = "j <= i: a query sees no later key",
                          .use = TermUse::limits,
                          .is_causal = true,
                          .fewest_positions = [](const Numbers&) -> int64_t { return 1; },
                          .make = [](const Numbers&, const TermPlace&) -> std::unique_ptr<MaskRule> {
                            return std::make_unique<DifferenceRule>(0, kFar);
                          }};

}  // namespace athanor::masks::kinds
