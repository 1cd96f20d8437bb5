// Roles of the ranks in a run with parameter servers (parameter_server.servers, docs/parallelism.md): the last ranks are
// servers, all others are workers. The workers form the mesh (dp x cp) of a run without servers.
//
//   ServerPlaces places(config, world);
//   Mesh mesh(mesh_shape(config, world.size()), world, places.roles().servers);
//   Training training(config, num_channels, places.peers(), ...);
//   training.serve(places, {.log = &log, .replay = read_push_log(env, path)});
//   training.lay_out(mesh);
//
// Collective. Errors: those of the world. Thread rule: one thread. The world outlives the ServerPlaces, which outlives
// the Training.
#pragma once

#include <memory>

#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/parallel/parameter_server/protocol.h"
#include "athanor/parallel/parameter_server/push_log.h"

namespace athanor::train::engine {

class ServerPlaces {
 public:
  ServerPlaces(const Config& config, World& world);
  const ServerRoles& roles() const { return roles_; }
  bool serves() const { return serves_; }
  Group& ranks() const { return *ranks_; }  // all workers, then all servers: for pushes and pulls
  Group& peers() const { return *peers_; }  // the ranks with this rank's role

 private:
  ServerRoles roles_;
  bool serves_;
  std::unique_ptr<Group> ranks_, peers_;
};

// Whether a global barrier follows the step: after steps that are saved or evaluated, and after the last one.
bool is_commit(const Config& config, int64_t step);

// Logs of a server that applies each push as an update of its own (asynchronous and bounded-staleness training).
struct ServerLogs {
  PushLog* log = nullptr;               // written: the order in which pushes are applied
  std::vector<PushRecord> replay = {};  // followed: the order of an earlier run
  int64_t pushes = 0;                   // in the log so far
};
// The log file of server K: RUN/schedule/serverK.csv.
std::string schedule_file(const std::string& folder, int server);

}  // namespace athanor::train::engine
