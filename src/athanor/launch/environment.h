// A rank's place as its launcher put it into the environment.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE   which of how many, in all and on this host (athanor launch, torchrun)
//   ATHANOR_SHM_FD                                the descriptor of the segment the local ranks share
//   MASTER_ADDR MASTER_PORT                       where rank 0 is met, if there are several hosts; port 29500
//   RANK WORLD_SIZE                               without LOCAL_RANK: one rank in each pod (PyTorchJob, Volcano)
//   OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID  ... mpirun, MPICH, srun, Flux, LSF: launchers.h
//   PET_NODE_RANK PET_NNODES                      Kubeflow's TrainJobs, with one rank in each pod
//
//   const RankEnvironment place = parse_rank_environment([](const char* name) { return std::getenv(name); });
//
// With none of them set the process is alone: rank 0 of 1. The first line of the table in docs/collectives.md that is there is
// believed; another that says something else is an error naming both, but for launchers that start one process on each
// node for another to start the ranks. Hosts may have different numbers of ranks, except where these share a segment: then
// ranks of a host are consecutive, and every host has as many. ConfigError for half-set variables, for values that are no
// numbers or out of range, for what cannot be read, and where ranks have no way to meet.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace athanor {

using VariableLookup = std::function<const char*(const char* name)>;  // null where it is not set

struct RankEnvironment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int shm_fd = -1;             // -1: none
  std::string master_address;  // "": none
  int master_port = 29500;
  bool mpi = false;       // mpirun started this process
  bool launched = false;  // a launcher started this process
  std::string
      believed;  // what a launcher that is not ours said, and which variables: a line for the console; "": none
};

RankEnvironment parse_rank_environment(const VariableLookup& lookup);

// The place of `athanor launch`, which starts the ranks of a node itself: the launcher around it has started one process
// on each node. ConfigError where it has started several.
struct NodeEnvironment {
  int node = 0, num_nodes = 1;
  int ranks = 0;               // of each node; 0: not said
  std::string master_address;  // "": not said
  int master_port = 29500;
  std::string believed;
};
// None where the environment says nothing of several nodes.
std::optional<NodeEnvironment> parse_node_environment(const VariableLookup& lookup);

}  // namespace athanor
