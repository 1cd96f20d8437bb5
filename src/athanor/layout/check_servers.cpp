// Parameter servers: the last ranks of the world.
#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_servers(const Config& config, const Request& request) {
  if (config.parameter_server.servers < request.world_size) return;
  throw ConfigError(
      fmt::format("parameter_server.servers: got {} in a world of {} rank{}, expected fewer",
                  config.parameter_server.servers, request.world_size, request.world_size == 1 ? "" : "s"),
      "the other ranks train");
}

}  // namespace athanor::layout
