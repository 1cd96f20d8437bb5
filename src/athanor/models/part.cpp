#include "athanor/models/part.h"

#include <charconv>

#include "athanor/base/check.h"

namespace athanor::models {

bool ModelPart::has(std::string_view module) const {
  constexpr std::string_view kBlocks = "blocks.";
  if (module == "norm" || module == "head") return ends;
  if (!module.starts_with(kBlocks)) return embeds;
  int64_t block = -1;
  std::from_chars(module.data() + kBlocks.size(), module.data() + module.size(), block);
  return block >= first && block < last;
}

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
