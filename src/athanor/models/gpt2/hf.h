// GPT-2 in Hugging Face's form: model_type "gpt2". Its linear layers are stored transposed, [in,out] (Conv1D), with q,
// k and v in one c_attn [C,3C]. Models without biases carry nanoGPT's key "bias": false. Used by models/hf.h.
//
//   ModelConfig model = gpt2_hf().read(HfConfig(text, "config.json"));
//
// Errors and thread rule: as models/hf_family.h.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor::models::gpt2 {

const HfFamily& gpt2_hf();

}  // namespace athanor::models::gpt2
