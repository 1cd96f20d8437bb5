// Mixtures of experts in Hugging Face's form: model_type "mixtral". There each expert has matrices of its own (w1:
// gate, w3: up, w2: down), which are slices of a stack here. Export refuses what Mixtral cannot express: sigmoid
// scores, weights that are not renormalized or that are scaled, a balancing bias, shared experts, dense layers. Used by
// models/hf.h.
//
//   ModelConfig model = mixtral_hf().read(HfConfig(text, "config.json"));
//
// Errors and thread rule: as models/hf_family.h.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor::models::moe {

const HfFamily& mixtral_hf();

}  // namespace athanor::models::moe
