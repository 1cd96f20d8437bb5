// The same training without parallelism: what every layout is held against (law 1).
//
//   const VerifyRun one = run_layout(one_process(config), channels, steps);    // verify/verify.h
//
// With local SGD one process for each replica group; parallel.dp and local_sgd.group_size must be numbers then, not
// "auto". Thread rule: a pure function.
#pragma once

#include "athanor/config/config.h"

namespace athanor::layout {

Config one_process(Config config);

// How many ranks the sizes in the config make, parallel.dp = "auto" counting as one.
int least_ranks(const Config& config);

// ConfigError for what one process does not compute: compression, servers that do not wait for each other, and with
// `all_layouts` servers and local SGD, which are compared one layout at a time.
void check_comparable(const Config& config, bool all_layouts);

}  // namespace athanor::layout
