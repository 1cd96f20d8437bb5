// The layout of a run: how the ranks of a world divide the work, from section [parallel] of the config.
//
//   check_ranks(config, world.size());
//   Mesh mesh(mesh_shape(config, world.size()), world);
//   const Schedule schedule = pipeline_schedule(config, micro_batches);
//   const std::vector<ModelPart> parts = pipeline_parts(config, schedule);   // one per stage
//
// Which axes a sum runs over (cp splits the tokens of a micro-batch, so every sum over dp also runs over cp):
//   gradients       dp, cp       gradients of expert weights: edp, which lies across dp, cp and tp
//   losses          pp, dp, cp   the last stage has them
//   gradient norm   pp, tp       dp and cp ranks already have equal gradients
//
// Errors: ConfigError. Thread rule: pure functions.
#pragma once

#include "athanor/comm/mesh.h"
#include "athanor/config/config.h"
#include "athanor/models/part.h"
#include "athanor/pipeline/schedule.h"

namespace athanor::train::plan {

// ConfigError with the nearest legal layout unless the config can run on `world_size` ranks: the product of the axes is
// the world size, every dp rank has at least one micro-batch, and the pipeline has enough layers and micro-batches.
void check_ranks(const Config& config, int world_size);

// The number of ranks that train: all but the last parameter_server.servers ranks.
int training_ranks(const Config& config, int world_size);

// The mesh of the ranks that train. parallel.dp = "auto" becomes their number over the product of the other axes.
MeshShape mesh_shape(const Config& config, int world_size);

// Whether gradients of expert weights are summed over other ranks (edp) than all other gradients (dp x cp).
bool sums_experts_apart(const Config& config, const MeshShape& shape);

// Micro-batches of a step: global_batch / micro_batch, rounded up.
int64_t micro_batches_of_step(const TrainConfig& train);

// parallel.schedule on parallel.pp ranks. ConfigError where there is no such schedule.
Schedule pipeline_schedule(const Config& config, int64_t micro_batches);
// The model parts of all stages: by parallel.stage_layers, or as even as possible. ConfigError where they do not fit
// the schedule's number of stages.
std::vector<ModelPart> pipeline_parts(const Config& config, const Schedule& schedule);

}  // namespace athanor::train::plan
