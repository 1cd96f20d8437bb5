// The MPI transport: ranks as processes that mpirun has started, with messages carried by MPI.
//
//   const std::unique_ptr<World> world = make_mpi_world("/path/to/athanor_mpi.so");     // once in a process
//   world->all().all_reduce(...);
//
// MPI only moves bytes between two ranks. The sums and their order are the program's own
// (comm/network/network_group.h), so they have the bits of every other transport. The channels of groups are tags of
// MPI_COMM_WORLD. A failure that a rank declares reaches the others as a message. If a process dies, mpirun ends the
// job and names it. make_mpi_world initialises MPI; the world's destructor finalises it, unless something failed: then
// mpirun ends the remaining processes.
// Errors: Error if the module or MPI's libraries cannot be loaded, or MPI fails. Thread rule: World's.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::network::mpi {

std::unique_ptr<World> make_mpi_world(const std::string& module_path, const GroupOptions& options = {});

}  // namespace athanor::comm::network::mpi
