// Every layout of a config on up to so many ranks: which are legal, why others are refused, and samples of them.
//
//   const LayoutWalk walk = walk_layouts(config, 8);
//   for (const size_t i : spanning_sample(walk.legal, 100, /*seed=*/1)) {
//     const Config tried = in_layout(config, walk.legal[i]);
//     compare(run_layout(tried, channels, steps, ranks_of(walk.legal[i])), one);     // train/verify.h
//   }
//
// What is walked: sizes of pp, tp, cp, dp and ep; schedules (of pipelines), kinds of cp, sp, the stages of ZeRO, and
// recompute none, selective and full. All else is as the config says. Thread rule: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor {

struct LayoutWalk {
  std::vector<ParallelConfig> legal;
  std::map<std::string, int64_t> refused;  // how many, by what the config check says with N for numbers
};

// Of a resolved config. Law 1's axes are those of the model: ep is 1 without experts.
LayoutWalk walk_layouts(const Config& config, int most_ranks);

Config in_layout(Config config, const ParallelConfig& layout);
int ranks_of(const ParallelConfig& layout, int64_t servers = 0);  // "auto" is a dp of 1

// Of each axis what the layout has: "pp 2", "1f1b", "dp 1", "tp 2", "sp", "cp 2 ring", "ep 1", "zero 3", "full". As many,
// in the same order, for every layout; two axes never share a value.
std::vector<std::string> axis_values(const ParallelConfig& layout);

// Indices, ascending, of at least so many of the layouts (or all): every pair of values of two axes that some layout
// has is in one of them. They are found greedily, in an order of the seed's.
std::vector<size_t> spanning_sample(const std::vector<ParallelConfig>& layouts, size_t at_least,
                                    uint64_t seed);

// Law 1: whether such a layout must have the bits of one process. Sums over other axes, and "fast" ones over dp, have
// another order.
bool keeps_order(const ParallelConfig& layout);

// "pp 2 zb-v dp 2 tp 2 sp zero 3 reduce tree recompute full"
std::string text_of(const ParallelConfig& layout, int64_t servers = 0);

}  // namespace athanor
