// All kinds of faults.
//
//   for (const Fault* fault : all_faults()) print(fault->text().name);
//   const auto chosen = find_faults({"kill", "stop-term"}, /*num_ranks=*/2);
//
// docs/chaos.md says of each what it does, what must hold, and its negative control.
//
// Thread rule: pure functions; the kinds live as long as the program. Errors: ConfigError for a name that is none, and for
// a kind that needs more ranks.
#pragma once

#include <string>
#include <vector>

#include "athanor/chaos/fault.h"

namespace athanor::chaos {

const std::vector<const Fault*>& all_faults();
// In the order of the names. No names: all kinds that the number of ranks and the machine allow.
std::vector<const Fault*> find_faults(const std::vector<std::string>& names, int num_ranks);

}  // namespace athanor::chaos

namespace athanor::chaos::kinds {

// One each; a file of kinds/ has one, or several that do the same.
const Fault& kill_fault();
const Fault& kill_several_fault();
const Fault& kill_all_fault();
const Fault& kill_again_fault();
const Fault& kill_agent_fault();
const Fault& kill_at_call_fault();
const Fault& kill_launcher_fault();
const Fault& kill_master_fault();
const Fault& nan_gradient_fault();
const Fault& stop_term_fault();
const Fault& stop_fault();
const Fault& stop_agent_fault();
const Fault& stop_master_fault();
const Fault& pause_fault();
const Fault& skip_fault();
const Fault& delay_fault();
const Fault& reorder_fault();
const Fault& mismatch_fault();
const Fault& flip_slot_fault();
const Fault& flip_checkpoint_fault();
const Fault& flip_parameter_fault();
const Fault& flip_gradient_fault();
const Fault& full_fault();
const Fault& scale_fault();
const Fault& slow_fault();
const Fault& memory_fault();
const Fault& descriptors_fault();
const Fault& clock_fault();
const Fault& disk_error_fault();
const Fault& disk_short_fault();
const Fault& disk_hang_fault();

}  // namespace athanor::chaos::kinds

namespace athanor::chaos {
using namespace kinds;
}
