// The same training without parallelism: what every layout is held against (law 1).
//
//   const VerifyRun one = run_layout(one_process(config), channels, steps);    // train/verify/verify.h
//
// With local SGD one process for each replica group; parallel.dp and local_sgd.group_size must be numbers then, not
// "auto". Thread rule: a pure function.
#pragma once

#include "athanor/config/config.h"

namespace athanor::layout {

Config one_process(Config config);

}  // namespace athanor::layout
