// GPT-2 at Hugging Face: model_type "gpt2". Its linear layers are stored transposed, [in,out] (Conv1D), with
// q, k and v in one c_attn [C,3C]. Models without biases carry nanoGPT's key "bias": false.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor {

const HfFamily& gpt2_hf();

}  // namespace athanor
