// Groups whose collectives move nothing, for memory and traffic plans: the real code runs without data or peers.
//
//   const auto world = make_null_world(0, 8);
//   ... a step ...
//   world->all().traffic()      // what rank 0 of 8 would have sent within a host, comm/traffic.h
//
// Arguments are checked as in a real group; buffers need no memory behind them (the null device).
// Thread rule: as Group.
#pragma once

#include <memory>

#include "athanor/comm/world.h"

namespace athanor::comm {

std::unique_ptr<World> make_null_world(int rank, int size);

}  // namespace athanor::comm
