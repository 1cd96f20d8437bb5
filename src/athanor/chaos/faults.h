// All kinds of faults.
//
//   for (const Fault* fault : all_faults()) print(fault->text().name);
//   const auto chosen = find_faults({"kill", "stop-term"}, /*num_ranks=*/2);
//
// | name         | what it does                                             | what must hold            | negative control    |
// |--------------|----------------------------------------------------------|---------------------------|---------------------|
// | kill         | SIGKILL to one rank                                      | the job recovers by itself| max_restarts = 0    |
// | kill-several | SIGKILL to several ranks at once, rank 0 among them      | the same                  | max_restarts = 0    |
// | kill-all     | SIGKILL to all ranks at once                             | the same                  | max_restarts = 0    |
// | kill-again   | SIGKILL to a second rank while the first one's recovery  | the same                  | max_restarts = 0    |
// |              | goes on                                                  |                           |                     |
// | kill-master  | SIGKILL to the master of the job                         | the ranks train on        | its journal is      |
// |              |                                                          |                           | removed before that |
// | nan-gradient | NaN in a gradient of one rank                            | the step runs again       | guard.not_finite =  |
// |              |                                                          |                           | "off"               |
// | stop-term    | SIGTERM to the launcher                                  | saved, exit code 75; the  | the checkpoints are |
// |              |                                                          | same command goes on      | removed before that |
//
// Thread rule: pure functions; the kinds live as long as the program. Errors: ConfigError for a name that is none, and for
// a kind that needs more ranks.
#pragma once

#include <string>
#include <vector>

#include "athanor/chaos/fault.h"

namespace athanor::chaos {

const std::vector<const Fault*>& all_faults();
// In the order of the names. No names: all kinds that the number of ranks allows.
std::vector<const Fault*> find_faults(const std::vector<std::string>& names, int num_ranks);

// One each, by file.
const Fault& kill_fault();
const Fault& kill_several_fault();
const Fault& kill_all_fault();
const Fault& kill_again_fault();
const Fault& kill_master_fault();
const Fault& nan_gradient_fault();
const Fault& stop_term_fault();

}  // namespace athanor::chaos
