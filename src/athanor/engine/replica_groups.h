// What a checkpoint holds of the replica groups of local SGD (DiLoCo; parallel/data/local_sgd.h).
//
// model.NAME are the outer weights and outer.momentum.NAME is the outer momentum. Each replica group H has its own
// weights and optimizer state, replica.H.model.NAME and replica.H.adam.m.NAME. If n groups wrote the checkpoint, group h
// reads the tensors of group h mod n. Without replica groups in the checkpoint, all start from model.NAME. Error-feedback
// residuals of compressed outer steps are replica.H.outer.error_feedback.NAME and outer.server_error.NAME. A job with n
// groups reads into group h the sum of the residuals of h, h + n, h + 2n, ..., so the total correction that the weights
// still need is unchanged. Errors: ConfigError. Thread rule: one thread per rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/engine/param_slices.h"
#include "athanor/parallel/data/local_sgd.h"

namespace athanor::engine {

// Prefix of tensor names: "replica.H." for this rank's replica group H; "" without local SGD.
std::string replica_prefix(const OuterSync* outer);
// The prefix under which this rank reads its weights; "" if the checkpoint has no replica groups. ConfigError if it has
// some and the run does not use local SGD. `any`: any parameter of the model.
std::string replica_prefix(const TensorSource& source, const OuterSync* outer, const ParamSpec& any);

// Outer weights, outer momentum and residuals, to and from a checkpoint.
void add_outer(std::vector<StateTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params);
void load_outer(const TensorSource& source, OuterSync& outer);

}  // namespace athanor::engine
