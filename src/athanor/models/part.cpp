#include "athanor/models/part.h"

#include "athanor/base/check.h"

namespace athanor::models {

std::vector<ModelPart> cut_model(const std::vector<int64_t>& stage_layers) {
  std::vector<ModelPart> parts;
  int64_t first = 0;
  for (size_t stage = 0; stage < stage_layers.size(); ++stage) {
    const bool embeds = stage == 0, ends = stage + 1 == stage_layers.size();
    const int64_t least = embeds || ends ? 0 : 1;
    if (stage_layers[stage] < least)
      throw ConfigError(fmt::format("pipeline: stage {}: got {} layers, expected at least {}", stage,
                                    stage_layers[stage], least));
    parts.push_back({first, first + stage_layers[stage], embeds, ends});
    first += stage_layers[stage];
  }
  return parts;
}

}  // namespace athanor::models
