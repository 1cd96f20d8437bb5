// Whether a phase can go on with another micro-batch size in this world: what its layout allows, and the memory that there is, by
// the plan of the phase, which is to the byte.
//
//   const Fit fit = fit_of(run, plan, config, group);                  // collective, the same answer on all ranks
//   if (!fit.why_not.empty()) refuse(fit.why_not);      // "train.micro_batch_size = 64 needs 3221225472 bytes on a rank, ..."
//
// There is what is free, and what a rank holds already, of what its plan says: it gives nothing back, and uses it again. Errors:
// those of the group. Thread rule: one thread per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/engine/memory_plan.h"
#include "athanor/run/run.h"

namespace athanor::run::tuning {

struct Fit {
  std::string why_not = {};             // "": it fits on all ranks
  std::optional<MemoryPlan> plan = {};  // of this rank; none: it cannot have a layout
};

// `now`: the plan of the phase as it is. `config`: the phase's as it would be. `held_bytes`: of slots that are in no arena at
// the moment.
Fit fit_of(const Run& run, const MemoryPlan& now, const Config& config, Group& group,
           uint64_t held_bytes = 0);

}  // namespace athanor::run::tuning
