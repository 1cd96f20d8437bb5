// Who is what in a run with parameter servers (parameter_server.servers, docs/parallelism.md): the last ranks are servers, all
// others train for them, in the mesh that they would be without servers (dp x cp).
//
//   ServerPlaces places(config, world);
//   Mesh mesh(mesh_shape(config, world.size()), world, places.roles().servers);
//   Training training(config, num_channels, places.peers(), ...);
//   training.serve(places, {.log = &log, .replay = read_push_log(env, path)});
//   training.lay_out(mesh);
//
// Collective. Thread rule: one thread. The world outlives it, and it the training.
#pragma once

#include <memory>

#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/parallel/parameter_server/protocol.h"
#include "athanor/parallel/parameter_server/push_log.h"

namespace athanor {

class ServerPlaces {
 public:
  ServerPlaces(const Config& config, World& world);
  const ServerRoles& roles() const { return roles_; }
  bool serves() const { return serves_; }
  Group& ranks() const { return *ranks_; }  // the workers, then the servers: what they say to each other
  Group& peers() const { return *peers_; }  // those of this rank's kind

 private:
  ServerRoles roles_;
  bool serves_;
  std::unique_ptr<Group> ranks_, peers_;
};

// Steps after which workers wait for each other: those that are saved or evaluated, and the last one.
bool is_commit(const Config& config, int64_t step);

// What a server writes and follows, where pushes are updates of their own.
struct ServerLogs {
  PushLog* log = nullptr;
  std::vector<PushRecord> replay = {};
  int64_t pushes = 0;  // that the log has
};
// RUN/schedule/serverK.csv of server K.
std::string schedule_file(const std::string& folder, int server);

}  // namespace athanor
