// Parts of a model: what one pipeline stage computes and owns.
//
//   const auto parts = cut_model(stage_layers);
//   model->keep(std::array{parts[1], parts[6]});              // this rank's parts: the others get no memory
//   Var y = model->run(parts[1], tape, {}, x, recompute);   // hidden states in, hidden states out
//
// The first part embeds, each part has blocks [first, last), the last part ends with the final norm, the head and the
// loss. A weight belongs to the part that has its unit (models/model.h). A parameter with uses in two parts (tied
// embeddings) is in both. Each part has the gradient of its own use; once per step the two are added in declaration
// order, the embedding's first (law 1). Errors: ConfigError for stages that do not fit the layers. Thread rule: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::models {

struct ModelPart {
  int64_t first = 0, last = 0;  // blocks [first, last)
  bool embeds = false;          // the first part
  bool ends = false;            // the last part
  bool operator==(const ModelPart&) const = default;

  bool has(int unit) const { return unit >= (embeds ? 0 : first + 1) && unit <= (ends ? last + 1 : last); }
};

// One part per entry of stage_layers. Only the first and the last stage may have no layer.
std::vector<ModelPart> cut_model(const std::vector<int64_t>& stage_layers);

}  // namespace athanor::models
