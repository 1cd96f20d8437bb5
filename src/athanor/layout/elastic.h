// The layout of a job that goes on with another number of ranks than it was started with.
//
//   const Layout layout = elastic_layout(config, {.world_size = 3, .ranks_of_host = 3});    // pp 2 of the config: pp 1 dp 3
//
// The config's layout where these ranks can have it. Else fewer stages of the pipeline, which keeps the order of sums; and with
// launch.allow_inexact a smaller cp, tp or ep, too, which keeps law 1's tolerance. Each becomes a divisor of what the config
// asks for, the largest product of pp, cp and tp first; parallel.dp has to be "auto". Errors: ConfigError of the config's own
// layout, with the setting that would help. Thread rule: a pure function.
#pragma once

#include "athanor/layout/layout.h"

namespace athanor::layout {

Layout elastic_layout(const Config& config, const Ranks& ranks);

// Of what the order of sums depends on that may change so: "tp 2, cp 1, ep 1".
std::string order_of_sums(const Layout& layout);

}  // namespace athanor::layout
