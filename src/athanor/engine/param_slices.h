// What this rank holds of a checkpoint's logical tensors, for a parameter or its optimizer state: the parameter's box
// (tensor parallelism), and within it the rank's ZeRO shard, a flat range that is split into boxes.
//
//   StateTensor m = kept_part("adam.m", param, param.range(), {values});   // of the tensor "adam.m.NAME"
//   add_slices(content.tensors, m);                                        // a slice of a checkpoint for each box
//   read_slices(checkpoint, "adam.m", param, param.range());               // the values of param.kept_elements()
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

// A part of a logical tensor: boxes of it, one after the other, then `padding` elements of no meaning.
struct StateTensor {
  std::string name;
  Shape whole;
  std::vector<Box> boxes;
  int64_t padding = 0;
  KeptElements kept;
  bool changes_in_passes = false;  // not only in the update: what gradient exchanges keep

  int64_t numel() const;  // of the boxes
};

// `range`: flat elements of the parameter's shape (padding included).
StateTensor kept_part(const std::string& kind, const ParamSpec& param, const FlatRange& range,
                      KeptElements kept);
void add_slices(std::vector<NamedTensor>& tensors, const StateTensor& part);
void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const ParamSpec& param,
                const FlatRange& range, const KeptElements& kept);
std::vector<float> read_slices(const TensorSource& source, const std::string& kind, const ParamSpec& param,
                               const FlatRange& range);

}  // namespace athanor::engine
