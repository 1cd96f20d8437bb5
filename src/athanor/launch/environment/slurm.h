// The variables that Slurm sets for the tasks of srun (Slurm 22.05 and later).
//
//   if (const auto step = slurm_step(variables)) slurm_master_address(variables, *step);
//
// The script of sbatch and the shell of salloc have SLURM_NTASKS too, but are one process. So only variables of a step
// (SLURM_STEP_...) are believed. Thread rule: pure functions. Errors: ConfigError naming the variable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/launch/environment/variables.h"

namespace athanor::launch::environment {

struct SlurmStep {
  int task = 0, num_tasks = 1;
  int local_task = 0, local_tasks = 1;  // of this node
  int node = 0, num_nodes = 1;
};
// None outside of a step and in a step of one task. ConfigError for a heterogeneous step.
std::optional<SlurmStep> slurm_step(const Variables& variables);
// The host of task 0 ("127.0.0.1" if the step has one node), and a port that other jobs there are unlikely to use.
std::string slurm_master_address(const Variables& variables, const SlurmStep& step);
int slurm_master_port(const Variables& variables);

// "2(x3),1" -> 2 2 2 1. `name`: the variable, for messages.
std::vector<int> parse_tasks_per_node(std::string_view text, const char* name);
// "node[01-03,7],other" -> "node01"; "rack[0-1]_blade[4-5]" -> "rack0_blade4"
std::string first_host(std::string_view list, const char* name);

}  // namespace athanor::launch::environment
