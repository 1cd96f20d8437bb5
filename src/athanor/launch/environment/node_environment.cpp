// The node of an `athanor launch` process that another launcher has started.
#include <fmt/core.h>

#include "athanor/base/error.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/launchers.h"

namespace athanor::launch::environment {
namespace {

NodeEnvironment node_of(const FoundPlace& found, const std::string& launcher) {
  if (found.local_world_size.value_or(1) != 1)
    throw ConfigError(
        fmt::format(
            "launch: {} has started {} processes on this node ({}), expected one: it starts the ranks itself",
            launcher, *found.local_world_size, found.variables),
        "srun --ntasks-per-node=1, mpirun --map-by ppr:1:node; or leave out 'athanor launch -n N --'");
  return {.node = found.rank,
          .num_nodes = found.world_size,
          .ranks = 0,
          .master_address = found.address,
          .master_port = found.port,
          .believed = fmt::format("node {} of {}, as {} says: {}", found.rank, found.world_size, launcher,
                                  found.variables)};
}

}  // namespace

std::optional<NodeEnvironment> parse_node_environment(const VariableLookup& lookup) {
  const Variables variables(lookup);
  std::optional<NodeEnvironment> found;
  const auto rank = variables.number("RANK", 0, kMostRanks),
             size = variables.number("WORLD_SIZE", 1, kMostRanks);
  if (const auto node = find_kubeflow_node(variables)) {
    found = NodeEnvironment{.node = node->node,
                            .num_nodes = node->num_nodes,
                            .ranks = node->ranks,
                            .master_address = node->address,
                            .master_port = node->port,
                            .believed = fmt::format("node {} of {}, as Kubeflow says: {}", node->node,
                                                    node->num_nodes, node->variables)};
  } else if (rank && size && *rank < *size && !variables.has("LOCAL_RANK")) {
    found = node_of({.rank = *rank,
                     .world_size = *size,
                     .local_rank = {},
                     .local_world_size = {},
                     .variables = fmt::format("RANK {}, WORLD_SIZE {}", *rank, *size)},
                    "the environment");
  } else if (!rank && !size) {
    for (const Launcher& launcher : process_launchers()) {
      const auto place = launcher.find(variables);
      if (!place || place->world_size == 1) continue;
      found = node_of(*place, launcher.name);
      break;
    }
  }
  if (!found || (found->num_nodes == 1 && found->ranks == 0)) return std::nullopt;
  if (variables.has("MASTER_ADDR")) found->master_address = variables.text("MASTER_ADDR");
  found->master_port = variables.number("MASTER_PORT", 1, 65535).value_or(found->master_port);
  return found;
}

}  // namespace athanor::launch::environment
