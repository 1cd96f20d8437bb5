// Which ranks of a host run on the same processors, so that each rank starts the right number of threads. Some
// launchers give every rank all processors of its host (athanor launch, torchrun). Others give each rank processors of
// its own (srun --cpus-per-task, mpirun --map-by), or give one socket to several ranks. Ranks compare their CPU sets to
// tell.
//
//   const ProcessorShare share = share_of_processors(group, host_identity(), usable_cores());
//   threads = num_usable_cpus() / share.ranks;
//
// Errors: those of the group. Thread rule: one thread per rank.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "athanor/base/topology.h"
#include "athanor/comm/group.h"

namespace athanor::run {

struct ProcessorShare {
  int ranks = 1;  // ranks of this host whose processors overlap with this rank's; this rank included
  int rank = 0;   // this rank's index among them, in the order of the world
};

// Collective. `host`: an id that is equal on the ranks of one host and differs between hosts. `mine`: usable_cores()
// before threads are bound; empty (the machine's topology cannot be read) counts as all processors.
ProcessorShare share_of_processors(Group& group, std::string_view host, std::span<const Core> mine);

// Host name plus boot id of the kernel. Containers of one machine with names of their own count as separate hosts.
std::string host_identity();

}  // namespace athanor::run
