// A rank's place as its launcher put it into the environment.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE   which of how many, in all and on this host
//   ATHANOR_SHM_FD                                the descriptor of the segment the local ranks share
//
//   const RankEnvironment place = parse_rank_environment([](const char* name) { return std::getenv(name); });
//   auto group = place.world_size == 1 ? make_single_group()
//                                      : open_shm_group(place.shm_fd, place.rank, place.world_size);
//
// With none of them set the process is alone: rank 0 of 1. LOCAL_RANK and LOCAL_WORLD_SIZE default to the
// others. ConfigError for half-set variables and for values that are no numbers or out of range.
#pragma once

#include <functional>

namespace athanor {

struct RankEnvironment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int shm_fd = -1;        // -1: none
  bool launched = false;  // a launcher started this process
};

// `lookup` returns a variable's value, or null where it is not set.
RankEnvironment parse_rank_environment(const std::function<const char*(const char* name)>& lookup);

}  // namespace athanor
