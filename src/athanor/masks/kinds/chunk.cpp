#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {

const TermKind kChunk = {.name = "chunk",
                         .form = "chunk:c",
                         .meaning = "i/c = j/c, rounded down: nobody sees out of its chunk of c positions",
                         .use = TermUse::limits,
                         .fewest = 1,
                         .most = 1,
                         .fewest_positions = [](const Numbers& numbers) { return numbers[0]; },
                         .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                           return std::make_unique<EqualParts>(numbers[0], 0);
                         }};

}  // namespace athanor::masks::kinds
