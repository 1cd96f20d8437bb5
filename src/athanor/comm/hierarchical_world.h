// The World of several hosts with as many ranks each: a fast one inside the host, and one that reaches everybody.
//
//   auto world = make_hierarchical_world(open_shm_world(fd, local_rank, n), make_gloo_world(place));
//
// Rank r of the world is rank r mod n of host r / n. A group inside one host is one of the fast world; a group with as
// many ranks, more than one, on each of its hosts is of two levels (comm/hierarchical.h); any other is one of the
// world that reaches everybody. Thread rule: World's.
#pragma once

#include <memory>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor {

std::unique_ptr<World> make_hierarchical_world(std::unique_ptr<World> host, std::unique_ptr<World> everybody,
                                               const GroupOptions& options = {});

}  // namespace athanor
