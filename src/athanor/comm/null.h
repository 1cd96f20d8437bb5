// A member of a group whose collectives move nothing: for plans, which run the real code without data or peers.
//
//   const auto group = make_null_group(0, 8);
//   ... a step ...
//   group->traffic()      // what rank 0 of 8 would have put on the wire within a host, comm/traffic.h
//
// Arguments are checked as elsewhere. allocate_shared() gives addresses without memory.
// Thread rule: as Group.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/group.h"
#include "athanor/comm/world.h"

namespace athanor {

std::unique_ptr<Group> make_null_group(int rank, int size, std::string name = "null");
std::unique_ptr<World> make_null_world(int rank, int size);

}  // namespace athanor
