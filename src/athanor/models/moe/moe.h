// LLaMA with a mixture of experts (nn/moe.h) in place of the MLP of all blocks but the first `first_k_dense_replace`:
// Mixtral (Jiang et al., 2024), DeepSeekMoE (Dai et al., 2024).
#pragma once

#include "athanor/models/llama/llama.h"
#include "athanor/nn/moe.h"

namespace athanor {

class Moe : public Llama {
 public:
  explicit Moe(const ModelConfig& config);
  std::vector<MoeLayer*> moe_layers() const override;

 protected:
  double part_used_by_a_token(const Param& param) const override;
};

}  // namespace athanor
