// The environment variables of each launcher: a table with one row per launcher, tried in order.
//
//   for (const Launcher& launcher : process_launchers())
//     if (const auto place = launcher.find(variables)) use(*place);
//
// A launcher of processes names the rank of a process; a launcher of pods (Kubernetes) names the node. Traps that the
// rows handle: under mpirun Slurm's variables number nodes; OMPI_COMM_WORLD_NODE_RANK is a local rank; PMIX_RANK comes
// without a size. Thread rule: constant data, pure functions. Errors: ConfigError naming the variable.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "athanor/launch/environment/variables.h"

namespace athanor::launch {

struct FoundPlace {
  int rank = 0, world_size = 1;
  std::optional<int> local_rank = {}, local_world_size = {};  // none: the launcher does not say
  std::string address = {};                                   // where rank 0 is, "": not said
  int port = 29500;
  std::string variables = {};  // the variables it came from: "SLURM_PROCID 1, SLURM_STEP_NUM_TASKS 4"
};

struct Launcher {
  const char* name;
  std::optional<FoundPlace> (*find)(const Variables& variables);
  bool outermost;  // if another launcher runs inside this one, its numbers are of nodes
};

// After RANK and WORLD_SIZE, the first launcher whose find() returns something is believed.
std::span<const Launcher> process_launchers();

// What a launcher of pods says.
struct FoundNode {
  int node = 0, num_nodes = 1;
  int ranks = 0;             // of a node; 0: not said
  std::string address = {};  // "": not said
  int port = 29500;
  std::string variables = {};
};
// PET_NODE_RANK, PET_NNODES, ... of Kubeflow's TrainJobs and torch's elastic launcher.
std::optional<FoundNode> find_kubeflow_node(const Variables& variables);

}  // namespace athanor::launch
