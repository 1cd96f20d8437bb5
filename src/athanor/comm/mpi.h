// Ranks as the processes that mpirun has started, their messages carried by MPI.
//
//   const std::unique_ptr<World> world = make_mpi_world("/path/to/athanor_mpi.so");     // once in a process
//   world->all().all_reduce(...);
//
// MPI moves bytes between two ranks; the sums and their order are the program's own (comm/wire_group.h), so they have
// the bits of every other transport. Groups are tags of MPI_COMM_WORLD. A failure that a rank declares reaches the
// others as a message; a process that dies ends the job, by mpirun, which names it. MPI is initialised by
// make_mpi_world and finalised by the world's end, unless something failed: then mpirun ends what is left.
// Errors: Error where the module or MPI's libraries cannot be loaded, or MPI refuses. Thread rule: World's.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor {

std::unique_ptr<World> make_mpi_world(const std::string& module_path, const GroupOptions& options = {});

}  // namespace athanor
