// Parts of a model: what one stage of a pipeline computes and owns.
//
//   const auto parts = cut_model(even_stage_layers(config.num_hidden_layers, 8));   // of eight stages
//   model->keep(std::array{parts[1], parts[6]});              // this rank's: the others get no memory
//   Var y = model->run(parts[1], tape, {}, x, {}, recompute);   // hidden states in, hidden states out
//
// The first part embeds, each has blocks [first, last), the last one ends with the final norm, the head and
// the loss. A model's modules say by their names where they belong: "blocks.N" to the part with block N,
// "norm" and "head" to the last, all others to the first. A parameter with uses in two parts (tied
// embeddings) is in both; each has the gradient of its own use, and once per step these are added in the
// order in which the uses were declared (law 1): the embedding's first, then the head's. Errors:
// ConfigError for stages that do not fit the layers. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace athanor {

struct ModelPart {
  int64_t first = 0, last = 0;  // blocks [first, last)
  bool embeds = false;
  bool ends = false;
  bool operator==(const ModelPart&) const = default;

  bool has(std::string_view module) const;  // by the module's path
};

// As even as can be. What is left over goes to the stages in the middle first, then to the first and, since
// it has the head to compute, the last stage at the end. ConfigError where there are fewer layers than
// stages.
std::vector<int64_t> even_stage_layers(int64_t layers, int64_t stages);
// One part per entry. Only the first and the last stage may be without a layer.
std::vector<ModelPart> cut_model(const std::vector<int64_t>& stage_layers);

}  // namespace athanor
