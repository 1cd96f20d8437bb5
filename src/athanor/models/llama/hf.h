// LLaMA at Hugging Face: model_type "llama". Its rotary embedding turns the same pairs as ours (half-split),
// so no rows change places. Grouped queries, a head_dim of its own, biases (in all linear layers or in none)
// and tied embeddings are supported; scaled rotations and sliding windows are refused.
#pragma once

#include <functional>

#include "athanor/models/hf_family.h"

namespace athanor {

const HfFamily& llama_hf();

struct LlamaDefaults {   // where config.json leaves a key out
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t max_seq_len = 2048;
  double norm_eps = 1e-6;
  double rope_base = 10000.0;
};

// For families that differ in the second half of the blocks only: `feed_forward` adds its tensors of a layer.
ModelConfig read_llama_config(const HfConfig& config, const LlamaDefaults& defaults);
void write_llama_config(const ModelConfig& model, nlohmann::ordered_json& config);
std::vector<HfTensor> llama_tensors(
    const ModelConfig& model, const std::function<void(int64_t layer, std::vector<HfTensor>&)>& feed_forward);

}  // namespace athanor
