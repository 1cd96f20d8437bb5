// Mixtures of experts at Hugging Face: model_type "mixtral". Its experts are matrices of their own there (w1: gate, w3:
// up, w2: down), slices of a stack here. What Mixtral cannot say (sigmoid scores, weights that are not renormalized
// or scaled, a balancing bias, shared experts, dense layers) is refused on the way out.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor {

const HfFamily& mixtral_hf();

}  // namespace athanor
