// Enumerates the layouts of a config on up to `most_ranks` ranks: which are legal, why others are refused, and samples
// of them for tests.
//
//   const LayoutWalk walk = walk_layouts(config, 8);
//   for (const size_t i : spanning_sample(walk.legal, 100, /*seed=*/1)) {
//     const Config tried = in_layout(config, walk.legal[i]);
//     compare(run_layout(tried, channels, steps, ranks_of(walk.legal[i])), one);     // train/verify/verify.h
//   }
//
// Varied: sizes of pp, tp, cp, dp and ep; pipeline schedules; kinds of cp; sp; ZeRO stages; recompute none, selective
// and full. Everything else is as in the config. Thread rule: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::train::plan {

struct LayoutWalk {
  std::vector<ParallelConfig> legal;
  std::map<std::string, int64_t> refused;  // number of layouts per error message, its numbers replaced by N
};

// The config must be resolved. A model without experts has only layouts with ep = 1.
LayoutWalk walk_layouts(const Config& config, int most_ranks);

Config in_layout(Config config, const ParallelConfig& layout);
int ranks_of(const ParallelConfig& layout, int64_t servers = 0);  // "auto" is a dp of 1

// The layout's value on each axis: "pp 2", "1f1b", "dp 1", "tp 2", "sp", "cp 2 ring", "ep 1", "zero 3", "full". Every
// layout has the same number of values in the same order; no value occurs on two axes.
std::vector<std::string> axis_values(const ParallelConfig& layout);

// Pairwise coverage: indices, ascending, of at least `at_least` layouts (or all of them), so that every pair of values
// of two axes that occurs in some layout occurs in a chosen one. Chosen greedily, in an order given by the seed.
std::vector<size_t> spanning_sample(const std::vector<ParallelConfig>& layouts, size_t at_least,
                                    uint64_t seed);

// Whether the layout must have the bits of a single process (law 1). False with tp, cp or ep above 1, and with
// reduce = "fast" and dp above 1: these add in another order.
bool keeps_order(const ParallelConfig& layout);

// "pp 2 zb-v dp 2 tp 2 sp zero 3 reduce tree recompute full"
std::string text_of(const ParallelConfig& layout, int64_t servers = 0);

}  // namespace athanor::train::plan
