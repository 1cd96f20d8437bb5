// How the ranks of a world share a run, as section [parallel] of its config says.
//
//   check_ranks(config, world.size());
//   Mesh mesh(mesh_shape(config, world.size()), world);
//
// Thread rule: pure functions.
#pragma once

#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"

namespace athanor {

// ConfigError unless that many ranks can run it: the axes make up the world, and each of parallel.dp has a grain.
void check_ranks(const Config& config, int world_size);

// parallel.dp = "auto" are the ranks that the other axes leave.
MeshShape mesh_shape(const Config& config, int world_size);

}  // namespace athanor
