// A rank's place as its launcher put it into the environment.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE   which of how many, in all and on this host
//   ATHANOR_SHM_FD                                the descriptor of the segment the local ranks share
//   MASTER_ADDR MASTER_PORT                       where rank 0 is met, if there are several hosts; port 29500
//   OMPI_COMM_WORLD_RANK, _SIZE, ...              what mpirun (Open MPI) says, where RANK is not set
//
//   const RankEnvironment place = parse_rank_environment([](const char* name) { return std::getenv(name); });
//
// With none of them set the process is alone: rank 0 of 1. LOCAL_RANK and LOCAL_WORLD_SIZE default to the others where
// the ranks share a segment, else to a host of its own for each rank. Ranks of a host are consecutive, and every host
// has as many. ConfigError for half-set variables, for values that are no numbers or out of range, and where ranks
// have no way to meet.
#pragma once

#include <functional>
#include <string>

namespace athanor {

struct RankEnvironment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int shm_fd = -1;             // -1: none
  std::string master_address;  // "": none
  int master_port = 29500;
  bool mpi = false;       // mpirun started this process
  bool launched = false;  // a launcher started this process
};

// `lookup` returns a variable's value, or null where it is not set.
RankEnvironment parse_rank_environment(const std::function<const char*(const char* name)>& lookup);

}  // namespace athanor
