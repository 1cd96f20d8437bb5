// The rank of this process, as its launcher put it into the environment.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE   rank and number of ranks, in all and on this host
//                                                 (athanor launch, torchrun)
//   ATHANOR_CONTROL ATHANOR_JOB ATHANOR_WORKER    socket of the launcher's agent, which gives the rank its worlds; the
//                                                 launch and the number of the process in it (control/agent_link.h)
//   ATHANOR_SHM_FD                                without them, with several nodes: descriptor of the shared-memory
//                                                 segment of the ranks on this host
//   ATHANOR_SNAPSHOT_FD                           likewise: descriptor of shared memory for this rank's snapshots
//   MASTER_ADDR MASTER_PORT                       address of rank 0, if there are several hosts; port 29500 by default
//   RANK WORLD_SIZE                               without LOCAL_RANK: one rank in each pod (PyTorchJob, Volcano)
//   OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID  and more, of mpirun, MPICH, srun, Flux, LSF: launchers.h
//   PET_NODE_RANK PET_NNODES                      Kubeflow's TrainJobs, with one rank in each pod
//
//   const RankEnvironment place = parse_rank_environment([](const char* name) { return std::getenv(name); });
//
// If no variable is set, the process is alone: rank 0 of 1. docs/collectives.md has the table of launchers; the first
// one whose variables are set is believed. If another launcher's variables contradict it, that is an error naming both,
// except for launchers that start one process per node in which another launcher starts the ranks. Hosts may have
// different numbers of ranks, unless ranks share a segment: then the ranks of a host are consecutive and every host has
// the same number.
// Errors: ConfigError for incomplete sets of variables, values that are no numbers or out of range, variables that
// cannot be understood, and ranks without a way to find each other. Thread rule: pure functions of the look-up.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch::environment {

using VariableLookup = std::function<const char*(const char* name)>;  // null where it is not set

struct RankEnvironment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  std::string control, job;    // "": no agent
  int worker = -1;             // -1: no agent
  int shm_fd = -1;             // -1: none
  int snapshot_fd = -1;        // -1: none
  std::string master_address;  // "": none
  int master_port = 29500;
  bool mpi = false;       // mpirun started this process
  bool launched = false;  // a launcher started this process
  std::string
      believed;  // a line for the console: which launcher (not athanor's) was believed, by which variables; "": none

  bool has_agent() const { return !control.empty(); }
  bool by_athanor() const { return has_agent() || shm_fd >= 0; }  // `athanor launch` is the parent process
};

RankEnvironment parse_rank_environment(const VariableLookup& lookup);

// The node of an `athanor launch` process, which starts the ranks of its node itself, when another launcher has started
// one `athanor launch` on each node. ConfigError if it has started several on a node.
struct NodeEnvironment {
  int node = 0, num_nodes = 1;
  int ranks = 0;               // of each node; 0: not said
  std::string master_address;  // "": not said
  int master_port = 29500;
  std::string believed;
};
// None if the environment names no nodes.
std::optional<NodeEnvironment> parse_node_environment(const VariableLookup& lookup);

}  // namespace athanor::launch::environment
