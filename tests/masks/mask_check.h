// Compares a mask with the pairs that it should see: lists, classes, bits in both directions, wide blocks, figures.
#pragma once

#include <string>

#include "athanor/masks/attention_mask.h"
#include "masks/plain_pattern.h"

namespace athanor::tests::masks {

std::vector<int64_t> positions_of(const std::vector<PositionRun>& runs);

// The first thing about a rule of the mask that differs; "" if nothing does.
std::string difference(const AttentionMask& mask, int64_t rule, const MaskPositions& positions,
                       const Pairs& pairs);

}  // namespace athanor::tests::masks
