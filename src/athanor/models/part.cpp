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

std::vector<int64_t> even_stage_layers(int64_t layers, int64_t stages) {
  if (stages < 1 || layers < stages)
    throw ConfigError(
        fmt::format("pipeline: got {} stages for {} layers, expected 1 to {}", stages, layers, layers));
  std::vector<int64_t> counts(static_cast<size_t>(stages), layers / stages);
  // Surplus layers: the middle stages, then the first, then the last.
  for (int64_t left = layers % stages, i = 0; i < left; ++i)
    ++counts[static_cast<size_t>(i + 1 < stages - 1 ? i + 1 : i + 1 == stages - 1 ? 0 : stages - 1)];
  return counts;
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
