// LLaMA at Hugging Face: model_type "llama". Its rotary embedding turns the same pairs as ours (half-split),
// so no rows change places. Grouped queries, a head_dim of its own, biases (in all linear layers or in none)
// and tied embeddings are supported; scaled rotations and sliding windows are refused.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor {

const HfFamily& llama_hf();

}  // namespace athanor
