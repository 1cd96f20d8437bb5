// Ranks as threads of one process: used by every parallel test.
//
//   auto groups = make_thread_groups(4);
//   run_ranks(groups, [&](Group& group) { ... });     // one thread each; rethrows the first rank's exception
//
//   auto worlds = make_thread_worlds(4);              // if subgroups are needed, too
//   run_ranks(worlds, [&](World& world) { ... });
//
// The groups or worlds share only their arena, which each keeps alive; any thread may use any of them. A rank whose
// Group or World is destroyed has left: ranks that wait for it get PeerLost.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::shm {

std::vector<std::unique_ptr<Group>> make_thread_groups(int size, const GroupOptions& options = {});

std::vector<std::unique_ptr<World>> make_thread_worlds(int size, const GroupOptions& options = {});

// Runs body(*groups[r]) on one thread per rank and waits for all. If a rank throws, the group or world is aborted, so
// that no rank waits for it; at the end the first exception is rethrown.
void run_ranks(const std::vector<std::unique_ptr<Group>>& groups, const std::function<void(Group&)>& body);
void run_ranks(const std::vector<std::unique_ptr<World>>& worlds, const std::function<void(World&)>& body);

}  // namespace athanor::comm::shm
