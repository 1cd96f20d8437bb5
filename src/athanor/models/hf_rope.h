// Reads the rotary embedding from all versions of config.json. They put rope_theta at the top, inside rope_scaling or
// inside rope_parameters (there perhaps once per kind of layer), and the kind of scaling under "type" or "rope_type":
// default, linear, llama3 and yarn (nn/rope_scaling.h). A scaling by 1 is none.
//
//   read_rotations(config, {.default_base = 1e6, .head_dim = 128}, model);    // max_position_embeddings is set
//   write_rotations(model, json);                                            // rope_theta and both kinds of tables
//
// Rotations scaled by "ntk" are written as unscaled ones of the larger base, which are the same numbers. Errors: Error
// naming the key where two places differ, where a scaling is not known (dynamic, longrope, mscale), where only a part of
// the channels is rotated, or where kinds of layers differ. Thread rule: pure functions.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor::models {

struct RopeFacts {
  double default_base = 10000.0;  // of the family
  int64_t head_dim = 0;
};

void read_rotations(const HfConfig& config, const RopeFacts& facts, ModelConfig& model);
void write_rotations(const ModelConfig& model, nlohmann::ordered_json& config);

}  // namespace athanor::models
