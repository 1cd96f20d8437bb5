// How the ranks of a world share a run, as section [parallel] of its config says.
//
//   check_ranks(config, world.size());
//   Mesh mesh(mesh_shape(config, world.size()), world);
//   const Schedule schedule = pipeline_schedule(config, grains of this rank);
//   const std::vector<ModelPart> parts = pipeline_parts(config, schedule);   // by stage
//
// What sums run over which axes (cp divides the tokens of a grain, so whatever dp adds up, cp adds up as well):
//   gradients     dp, cp       weights of experts: edp, which lies across dp, cp and tp
//   losses        pp, dp, cp   the last stage has them
//   the norm      pp, tp       gradients are alike on the others
//
// Thread rule: pure functions.
#pragma once

#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/models/part.h"
#include "athanor/pipeline/schedule.h"

namespace athanor {

// ConfigError with the nearest legal layout unless that many ranks can run it: the axes make up the world, each of
// parallel.dp has a grain, and the pipeline has layers and micro-batches for its stages.
void check_ranks(const Config& config, int world_size);

// All but parameter_server.servers, which are the last ones.
int training_ranks(const Config& config, int world_size);

// Of the ranks that train. parallel.dp = "auto" are those that the other axes leave.
MeshShape mesh_shape(const Config& config, int world_size);

// Whether gradients of experts are summed over other ranks (edp) than those of everything else (dp x cp).
bool sums_experts_apart(const Config& config, const MeshShape& shape);

int64_t grains_of_step(const TrainConfig& train);

// parallel.schedule for the parallel.pp ranks. ConfigError where there is no such schedule.
Schedule pipeline_schedule(const Config& config, int64_t micro_batches);
// parallel.stage_layers, or as even as can be. ConfigError where they do not fit the schedule's stages.
std::vector<ModelPart> pipeline_parts(const Config& config, const Schedule& schedule);

}  // namespace athanor
