// What validate() (validate.h) is made of: what must fit together, by topic. Each throws the first refusal it comes to
// (refuse.h). Thread rule: pure functions.
#pragma once

#include "athanor/config/config.h"

namespace athanor::config {

void check_model(const Config& config);          // validate_model.cpp: sizes, heads, experts
void check_recompute(const Config& config);      // that the model has the blocks of parallel.recompute
void check_layout(const Config& config);         // validate_layout.cpp: tp, sp, cp, pp, ep
void check_data_parallel(const Config& config);  // validate_data_parallel.cpp: what sums of gradients go with
void check_guard(const Config& config);          // validate_guard.cpp: what a guard that acts goes with
void check_objective(const Config& config);      // validate_objective.cpp: data.objective and its model
void check_samples(const Config& config);        // validate_samples.cpp: train.sample_*
void check_phases(const Config& config);         // validate_phases.cpp: each phase as a config of its own

// Their sum, each within its limits: ConfigError where one is not.
int64_t steps_of_phases(const Config& config);

}  // namespace athanor::config
