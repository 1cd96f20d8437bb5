// The columns that a worker or a server is made of (protocol.h): one of all weights, or one of experts beside one of
// everything else.
//
//   auto columns = make_columns<ServerColumn>(model, given, &ServerRoles::servers, arena);
//
// Kind is WorkerColumn or ServerColumn, made of its weights, its Column and what else it takes. `peers` is how many ranks
// are of that kind. Errors: Error for groups of other sizes than the roles say, and for two columns without common updates.
#pragma once

#include <memory>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/nn/module.h"
#include "athanor/parallel/experts_apart.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor {

template <typename Kind, typename... Rest>
std::vector<std::unique_ptr<Kind>> make_columns(const Module& model, const std::vector<Column>& columns,
                                                int ServerRoles::*peers, Rest&... rest) {
  std::vector<std::unique_ptr<Kind>> made;
  for (const Column& column : columns) {
    const ServerRoles& roles = column.settings.roles;
    check(column.ranks.size() == roles.size() && column.peers.size() == roles.*peers,
          "parameter server: got {} ranks and {} peers, expected {} and {}", column.ranks.size(),
          column.peers.size(), roles.size(), roles.*peers);
    check(columns.size() == 1 || column.settings.consistency == Consistency::sync,
          "parameter server: got experts apart without common updates, expected sync");
    const bool experts = !made.empty();
    made.push_back(std::make_unique<Kind>(
        columns.size() == 1 ? model.weights() : weights_apart(model.weights(), experts), column, rest...));
  }
  return made;
}

}  // namespace athanor
