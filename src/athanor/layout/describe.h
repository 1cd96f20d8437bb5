// A layout in words, for the header of a run.
//
//   describe(config, layout);          // pp 2 (zb-v, 4 stages), dp 2, tp 1, ZeRO 1, reduce fast, recompute none
//   describe_batch(config, layout);    // 8 x 256 tokens = 4 micro-batch x 2 accumulation x 1 dp
//
// Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/layout/layout.h"

namespace athanor::layout {

std::string describe(const Config& config, const Layout& layout);
std::string describe_batch(const Config& config, const Layout& layout);

}  // namespace athanor::layout
