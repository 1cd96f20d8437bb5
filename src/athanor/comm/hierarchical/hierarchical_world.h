// The World of several hosts with the same number of ranks each: made of a fast world inside each host and a world of
// all ranks.
//
//   auto world = make_hierarchical_world(open_shm_world(fd, local_rank, n), make_gloo_world(place));
//
// Rank r of the world is rank r mod n of host r / n. Groups:
//   all members on one host                                 a group of the host's world
//   the same number of members, above one, on each host     a hierarchical group (hierarchical.h)
//   any other                                               a group of the world of all ranks
// Thread rule: World's.
#pragma once

#include <memory>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::hierarchical {

std::unique_ptr<World> make_hierarchical_world(std::unique_ptr<World> host, std::unique_ptr<World> everybody,
                                               const GroupOptions& options = {});

}  // namespace athanor::comm::hierarchical
