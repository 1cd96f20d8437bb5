// What a rank holds of a parameter, or of optimizer state that goes with it, as slices of the logical tensor of a
// checkpoint: its box (of tensor parallelism), and of that the range that ZeRO leaves it, cut into boxes.
//
//   add_slices(content.tensors, "adam.m", param, m);          // the tensor is "adam.m.NAME"
//   std::vector<float> values = read_slices(checkpoint, "adam.m", param);   // those of param.kept_elements()
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/checkpoint/checkpoint.h"

namespace athanor {

// The elements that a rank keeps: in memory, or, where the tensor is undefined, read from where they are.
struct KeptElements {
  Tensor tensor;
  std::function<void(int64_t first, int64_t count, float* values)> read = {};
};

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const Param& param,
                const KeptElements& kept);
// The same of a range of its elements (those of its shape, padding among them).
void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const Param& param,
                const FlatRange& range, const KeptElements& kept);
std::vector<float> read_slices(const Checkpoint& checkpoint, const std::string& kind, const Param& param);
std::vector<float> read_slices(const Checkpoint& checkpoint, const std::string& kind, const Param& param,
                               const FlatRange& range);

}  // namespace athanor
