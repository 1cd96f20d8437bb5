// LLaMA with a mixture of experts (nn/moe.h) in place of the MLP in all blocks but the first `dense_layers`: Mixtral
// (Jiang et al., 2024), DeepSeekMoE (Dai et al., 2024).
//
//   models::moe::Moe model(resolved_config.model);         // or make_model() (models/model.h)
//
// Shapes, errors and thread rule: as Model.
#pragma once

#include "athanor/models/llama/llama.h"
#include "athanor/nn/moe.h"

namespace athanor::models::moe {

class Moe : public Llama {
 public:
  explicit Moe(const ModelConfig& config);
  std::vector<MoeLayer*> moe_layers() const override;

 protected:
  double part_used_by_a_token(const ParamSpec& param) const override;
};

}  // namespace athanor::models::moe
