// The rotary embedding as the versions of config.json spell it: rope_theta at the top, inside rope_scaling or inside
// rope_parameters, there perhaps once for each kind of layer; scalings of it under "type" or "rope_type".
//
//   model.rope_theta = read_rope_base(config, {.default_base = 1e6, .head_dim = 128});
//
// Errors: an Error naming the key where two places differ, where the rotation is scaled or turns a part of the channels
// only, or where kinds of layers differ. Thread rule: pure function.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor {

struct RopeFacts {
  double default_base = 10000.0;  // of the family
  int64_t head_dim = 0;
};

double read_rope_base(const HfConfig& config, const RopeFacts& facts);

}  // namespace athanor
