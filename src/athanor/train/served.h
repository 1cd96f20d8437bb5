// Who is what in a run with parameter servers (parallel.servers, docs/parallelism.md): the last ranks are servers, all
// others train for them. Each kind is a mesh of its own. Where several ranks share a model (tp, pp), those with the same
// part of it are a column: its workers, which share out grains and tokens (dp x cp), and its servers, which keep that part.
// Experts that are summed over other ranks than everything else (ep, tp) have columns of their own, so each rank is in two.
//
//   {tp 2, dp 2} and 2 servers:   column 0: workers 0 2, server 4      column 1: workers 1 3, server 5
//   with experts, ep 1:           one column of them: workers 0 1 2 3, servers 4 5
//
//   ServerPlaces places(config, world);
//   Mesh mesh(places.shape(), places.peers());      // of the workers as if there were no servers; of the servers
//   Training training(config, num_channels, data_group(mesh), ...);
//   training.serve(places, {.log = &log, .replay = read_push_log(env, path)});
//   training.lay_out(mesh);
//
// Collective. Thread rule: one thread. The world outlives it, and it the training.
#pragma once

#include <memory>

#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/parallel/parameter_server/protocol.h"
#include "athanor/parallel/parameter_server/push_log.h"

namespace athanor {

class ServerPlaces {
 public:
  ServerPlaces(const Config& config, World& world);
  bool serves() const { return serves_; }
  const MeshShape& shape() const { return shape_; }  // of the ranks of this one's kind
  World& peers() { return *peers_; }                 // these, as a world of their own
  // Of this rank's columns: `peers` and `experts`, of its kind, are those of dp x cp and those with the same experts.
  std::vector<Column> columns(const Config& config, int64_t num_channels, Group& peers, Group* experts) const;

 private:
  struct Place {
    ServerRoles roles;
    std::unique_ptr<Group> ranks;  // the workers, then the servers
  };
  // Those that are as this one on these axes.
  Place make_place(World& world, std::initializer_list<Axis> alike, const std::string& name) const;

  MeshShape workers_, servers_;
  bool serves_;
  MeshShape shape_;
  std::unique_ptr<Group> of_kind_;
  std::unique_ptr<World> peers_;
  Place column_, experts_;  // no ranks: experts are as everything else
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
