#include "athanor/train/engine/param_slices.h"

#include <algorithm>

namespace athanor::train::engine {
namespace {

// The boxes of a flat range, in the order of its elements, with offsets in the logical tensor.
std::vector<Box> boxes_of(const Param& param, const FlatRange& kept) {
  std::vector<Box> boxes = athanor::boxes_of(param.box().extent, kept.first, kept.last);
  for (Box& box : boxes) {
    Shape offset;
    for (int d = 0; d < box.offset.dims(); ++d) offset.push_back(param.box().offset[d] + box.offset[d]);
    box.offset = offset;
  }
  return boxes;
}

// Padding is at the end.
FlatRange without_padding(const Param& param, const FlatRange& range) {
  const int64_t end = param.box().extent.numel();
  return {std::min(range.first, end), std::min(range.last, end)};
}

}  // namespace

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const Param& param,
                const FlatRange& range, const KeptElements& kept) {
  int64_t first = 0;
  for (const Box& box : boxes_of(param, without_padding(param, range))) {
    NamedTensor slice{.name = kind + "." + param.name(),
                      .tensor = {},
                      .whole = param.whole_shape(),
                      .offset = box.offset,
                      .shape_elsewhere = box.extent};
    if (kept.tensor.defined()) {
      slice.tensor = kept.tensor.flat(first, box.extent.numel()).view(box.extent);
    } else {
      slice.read = [read = kept.read, first](int64_t from, int64_t count, float* values) {
        read(first + from, count, values);
      };
    }
    tensors.push_back(std::move(slice));
    first += box.extent.numel();
  }
}

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const Param& param,
                const KeptElements& kept) {
  add_slices(tensors, kind, param, param.range(), kept);
}

std::vector<float> read_slices(const Checkpoint& checkpoint, const std::string& kind, const Param& param,
                               const FlatRange& range) {
  const FlatRange kept = without_padding(param, range);
  std::vector<float> values(static_cast<size_t>(kept.count()));
  int64_t first = 0;
  for (const Box& box : boxes_of(param, kept)) {
    checkpoint.read_box(kind + "." + param.name(), param.whole_shape(), box, values.data() + first);
    first += box.extent.numel();
  }
  return values;
}

std::vector<float> read_slices(const Checkpoint& checkpoint, const std::string& kind, const Param& param) {
  return read_slices(checkpoint, kind, param, param.range());
}

}  // namespace athanor::train::engine
