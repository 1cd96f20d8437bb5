// Who is what in a run with parameter servers (parallel.servers, docs/parallelism.md): the last ranks are servers, all
// others train for them.
//
//   ServerPlaces places(config, world);
//   if (!places.serves()) Mesh mesh(shape, places.workers());      // as if there were no servers
//   Training training(config, num_channels, places.peers(), ...);
//   training.serve(places, {.log = &log, .replay = read_push_log(env, path)});
//
// Thread rule: one thread. The world outlives it, and it the training.
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
  bool serves() const { return roles_.is_server(world_.rank()); }
  const ServerRoles& roles() const { return roles_; }
  Group& all() { return world_.all(); }
  Group& peers() { return *peers_; }  // servers, or workers
  World& workers();                   // as a world of their own; Error on a server

 private:
  World& world_;
  ServerRoles roles_;
  std::unique_ptr<Group> peers_;
  std::unique_ptr<World> workers_;
};

// Of the ranks of a config's run.
ServerSettings server_settings(const Config& config, const ServerRoles& roles, int64_t num_channels);

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
