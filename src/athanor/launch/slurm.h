// Slurm's variables, as tasks of srun have them (Slurm 22.05 and later).
//
// A body of sbatch and a shell of salloc have SLURM_NTASKS too, but are one process: only what belongs to a step
// (SLURM_STEP_...) is believed. Thread rule: pure functions. Errors: ConfigError naming the variable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/launch/variables.h"

namespace athanor {

struct SlurmStep {
  int task = 0, num_tasks = 1;
  int local_task = 0, local_tasks = 1;  // of this node
  int node = 0, num_nodes = 1;
};
// None outside of a step and in a step of one task. A heterogeneous step is refused.
std::optional<SlurmStep> slurm_step(const Variables& variables);
// The host of task 0, and a port that other jobs on it are unlikely to have. "127.0.0.1" where the step has one node.
std::string slurm_master_address(const Variables& variables, const SlurmStep& step);
int slurm_master_port(const Variables& variables);

// "2(x3),1" -> 2 2 2 1. `name` of the variable, for messages.
std::vector<int> parse_tasks_per_node(std::string_view text, const char* name);
// "node[01-03,7],other" -> "node01"; "rack[0-1]_blade[4-5]" -> "rack0_blade4"
std::string first_host(std::string_view list, const char* name);

}  // namespace athanor
