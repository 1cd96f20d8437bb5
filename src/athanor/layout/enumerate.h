// Enumerates the layouts of a config on up to `most_ranks` ranks: which are legal, why others are refused, and samples
// of them for tests.
//
//   const Enumeration all = enumerate(config, 8);
//   for (const size_t i : spanning_sample(all.legal, 100, /*seed=*/1)) {
//     const Config tried = in_layout(config, all.legal[i]);
//     compare(run_layout(tried, channels, steps, all.legal[i].world_size()), one);     // verify/verify.h
//   }
//
// Varied: sizes of pp, tp, cp, dp and ep; pipeline schedules; kinds of cp; sp; ZeRO stages; recompute none, selective
// and full. Everything else is as in the config. Thread rule: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "athanor/layout/layout.h"

namespace athanor::layout {

struct Enumeration {
  std::vector<Layout> legal;
  std::map<std::string, int64_t> refused;  // number of layouts per error message, its numbers replaced by N
};

// The config must be resolved. A model without experts has only layouts with ep = 1.
Enumeration enumerate(const Config& config, int most_ranks);

// The config that asks for this layout.
Config in_layout(Config config, const Layout& layout);

// The layout's value on each axis: "pp 2", "1f1b", "dp 1", "tp 2", "sp", "cp 2 ring", "ep 1", "zero 3", "full". Every
// layout has the same number of values in the same order; no value occurs on two axes.
std::vector<std::string> axis_values(const Layout& layout);

// Pairwise coverage: indices, ascending, of at least `at_least` layouts (or all of them), so that every pair of values
// of two axes that occurs in some layout occurs in a chosen one. Chosen greedily, in an order given by the seed.
std::vector<size_t> spanning_sample(const std::vector<Layout>& layouts, size_t at_least, uint64_t seed);

// The same for rows of values on any axes, all of one length. No value stands in two columns.
std::vector<size_t> spanning_rows(const std::vector<std::vector<std::string>>& rows, size_t at_least,
                                  uint64_t seed);

}  // namespace athanor::layout
