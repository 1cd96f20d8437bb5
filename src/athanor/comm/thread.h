// Ranks as threads of one process: how every parallel test runs.
//
//   auto groups = make_thread_groups(4);
//   run_ranks(groups, [&](Group& group) { ... });     // one thread each; rethrows the first rank's exception
//
//   auto worlds = make_thread_worlds(4);              // where groups of some of the ranks are needed, too
//   run_ranks(worlds, [&](World& world) { ... });
//
// The groups or worlds share nothing but their arena and may be handed to threads in any way; each keeps the arena
// alive. A rank whose Group or World is destroyed has left: others that wait for it get PeerLost.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor {

std::vector<std::unique_ptr<Group>> make_thread_groups(int size, const GroupOptions& options = {});

std::vector<std::unique_ptr<World>> make_thread_worlds(int size, const GroupOptions& options = {});

// Runs body(*groups[r]) on one thread per rank and waits for all. A rank that throws aborts the group or the world, so
// that no other waits for it; then the exception of the rank that threw first is rethrown.
void run_ranks(const std::vector<std::unique_ptr<Group>>& groups, const std::function<void(Group&)>& body);
void run_ranks(const std::vector<std::unique_ptr<World>>& worlds, const std::function<void(World&)>& body);

}  // namespace athanor
