// LLaMA in Hugging Face's form: model_type "llama". Its rotary embedding rotates the same pairs as Athanor's
// (half-split), so no rows are permuted. Grouped queries, an explicit head_dim, biases (in all linear layers or in
// none) and tied embeddings are supported, and rotations scaled in ways that are known here (models/hf_rope.h). With a sliding
// window (models/hf_windows.h) the same model is a Mistral there, model_type "mistral". Used by models/hf.h.
//
//   ModelConfig model = llama_hf().read(HfConfig(text, "config.json"));
//
// Errors and thread rule: as models/hf_family.h.
#pragma once

#include <functional>

#include "athanor/models/hf_family.h"

namespace athanor::models::llama {

const HfFamily& llama_hf();
const HfFamily& mistral_hf();

struct LlamaDefaults {   // values of keys that config.json leaves out
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t max_seq_len = 2048;
  double norm_eps = 1e-6;
  double rope_base = 10000.0;
  bool has_windows = false;
  std::optional<int64_t> window = {};  // where config.json does not name it
};

// For families that differ from LLaMA only in the feed-forward half of the blocks. `feed_forward` appends the tensors
// of that half for one layer.
ModelConfig read_llama_config(const HfConfig& config, const LlamaDefaults& defaults);
void write_llama_config(const ModelConfig& model, nlohmann::ordered_json& config);
std::vector<HfTensor> llama_tensors(
    const ModelConfig& model, const std::function<void(int64_t layer, std::vector<HfTensor>&)>& feed_forward);

}  // namespace athanor::models::llama
