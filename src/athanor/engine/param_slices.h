// Slices of a checkpoint's logical tensors that this rank holds, for a parameter or its optimizer state: the
// parameter's box (tensor parallelism), and within it the rank's ZeRO shard, a flat range that is split into boxes.
//
//   add_slices(content.tensors, "adam.m", param, param.range(), {m});   // the tensor is "adam.m.NAME"
//   read_slices(checkpoint, "adam.m", param, param.range());            // the values of param.kept_elements()
//
// Errors: the checkpoint's. Thread rule: pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "athanor/autograd/param_spec.h"
#include "athanor/checkpoint/checkpoint.h"

namespace athanor::engine {

// Values of this rank's elements: `tensor` where they are in memory; undefined where they are offloaded, then read().
struct KeptElements {
  Tensor tensor;
  std::function<void(int64_t first, int64_t count, float* values)> read = {};
};

// `range`: flat elements of the parameter's shape (padding included).
void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const ParamSpec& param,
                const FlatRange& range, const KeptElements& kept);
std::vector<float> read_slices(const TensorSource& source, const std::string& kind, const ParamSpec& param,
                               const FlatRange& range);

}  // namespace athanor::engine
