// What each launcher calls a rank's place: one row a launcher, tried in this order.
//
//   for (const Launcher& launcher : process_launchers())
//     if (const auto place = launcher.find(variables)) ...
//
// A launcher of processes says which rank a process is; one of pods (Kubernetes) which node. The traps that the rows know:
// Slurm's variables under mpirun number nodes; OMPI_COMM_WORLD_NODE_RANK is a local rank; PMIX_RANK comes without a size.
// Thread rule: constant data, pure functions. Errors: ConfigError naming the variable.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "athanor/launch/variables.h"

namespace athanor {

struct FoundPlace {
  int rank = 0, world_size = 1;
  std::optional<int> local_rank = {}, local_world_size = {};  // none: the launcher does not say
  std::string address = {};                                   // where rank 0 is, "": not said
  int port = 29500;
  std::string variables = {};  // those that were believed: "SLURM_PROCID 1, SLURM_STEP_NUM_TASKS 4"
};

struct Launcher {
  const char* name;
  std::optional<FoundPlace> (*find)(const Variables& variables);
  bool outermost;  // its numbers are of nodes where another launcher runs inside it
};

// Behind RANK and WORLD_SIZE, the first that says something is believed.
std::span<const Launcher> process_launchers();

// Of a launcher of pods.
struct FoundNode {
  int node = 0, num_nodes = 1;
  int ranks = 0;             // of a node; 0: not said
  std::string address = {};  // "": not said
  int port = 29500;
  std::string variables = {};
};
// PET_NODE_RANK, PET_NNODES, ... of Kubeflow's TrainJobs and torch's elastic launcher.
std::optional<FoundNode> find_kubeflow_node(const Variables& variables);

}  // namespace athanor
