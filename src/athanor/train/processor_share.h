// Which ranks run on the same processors. Some launchers leave all processors of a host to each of its ranks (athanor
// launch, torchrun), others give each rank its own (srun --cpus-per-task, mpirun --map-by), or those of a socket to a few:
// only what the ranks tell each other shows it.
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

namespace athanor {

struct ProcessorShare {
  int ranks = 1;  // of this host, this one among them, that may run on a processor of this one
  int rank = 0;   // this one among them, in the order of the world
};

// Collective. `host`: the same on the ranks of one host, and only there; `mine`: usable_cores() before anything is
// bound; empty, where the machine cannot be read, counts as all.
ProcessorShare share_of_processors(Group& group, std::string_view host, std::span<const Core> mine);

// The name of the host and the identity of its running kernel: containers of one machine are hosts of their own.
std::string host_identity();

}  // namespace athanor
