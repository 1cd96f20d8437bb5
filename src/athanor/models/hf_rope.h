// Reads the base of the rotary embedding from all versions of config.json. They put rope_theta at the top, inside
// rope_scaling or inside rope_parameters (there perhaps once per kind of layer), and the kind of scaling under "type"
// or "rope_type".
//
//   model.rope_theta = read_rope_base(config, {.default_base = 1e6, .head_dim = 128});
//
// Errors: Error naming the key where two places differ, where positions are scaled or only a part of the channels is
// rotated, or where kinds of layers differ. Thread rule: pure function.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor::models {

struct RopeFacts {
  double default_base = 10000.0;  // of the family
  int64_t head_dim = 0;
};

double read_rope_base(const HfConfig& config, const RopeFacts& facts);

}  // namespace athanor::models
