#include "open_world.h"

#include <fmt/core.h>

#include <filesystem>

#include "apps/command_line/own_program.h"
#include "athanor/base/error.h"
#include "athanor/comm/hierarchical/hierarchical_world.h"
#include "athanor/comm/network/gloo/gloo.h"
#include "athanor/comm/network/mpi/mpi.h"
#include "athanor/comm/shm/shm.h"

namespace athanor::apps {

namespace {

std::unique_ptr<World> open_gloo(const RankEnvironment& place, const GroupOptions& options) {
  return make_gloo_world({.address = place.master_address,
                          .port = place.master_port,
                          .rank = place.rank,
                          .size = place.world_size},
                         options);
}

std::unique_ptr<World> open_shm(const RankEnvironment& place, GroupOptions options) {
  if (place.local_world_size != place.world_size)
    options.name += fmt::format(" of host {}", place.rank / place.local_world_size);
  return open_shm_world(place.shm_fd, place.local_rank, place.local_world_size, options);
}

}  // namespace

std::unique_ptr<World> open_world(const RankEnvironment& place, const std::string& transport,
                                  const GroupOptions& options) {
  const bool several_hosts = place.local_world_size != place.world_size;
  const bool has_master = !place.master_address.empty();
  const auto need = [&](bool has, const char* what) {
    if (!has)
      throw ConfigError(fmt::format("parallel.transport = \"{}\": rank {} of {} has no {} in its environment",
                                    transport, place.rank, place.world_size, what),
                        "'auto' takes what the environment offers");
  };
  if (place.world_size == 1) return make_single_world();
  if (transport == "mpi") need(place.mpi, "mpirun");
  if (transport == "gloo") need(has_master, "MASTER_ADDR");
  if (transport == "shm") need(place.shm_fd >= 0 && !several_hosts, "ATHANOR_SHM_FD that all ranks share");
  // Ranks on devices find each other over what there is (comm/nccl/nccl.h).
  if (transport == "mpi" || ((transport == "auto" || transport == "nccl") && place.mpi))
    return make_mpi_world(std::filesystem::path(own_program()).parent_path() / "athanor_mpi.so", options);
  if (transport == "gloo") return open_gloo(place, options);
  if (place.shm_fd >= 0 && !several_hosts) return open_shm(place, options);
  if (place.shm_fd >= 0 && place.local_world_size > 1)
    return make_hierarchical_world(open_shm(place, options), open_gloo(place, options), options);
  need(has_master, "MASTER_ADDR");
  return open_gloo(place, options);
}

}  // namespace athanor::apps
