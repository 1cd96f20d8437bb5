#include "athanor/train/param_slices.h"

namespace athanor {
namespace {

// In the order of their elements, with offsets in the logical tensor.
std::vector<Box> boxes_of(const Param& param) {
  const FlatRange kept = param.kept_elements();
  std::vector<Box> boxes = athanor::boxes_of(param.box().extent, kept.first, kept.last);
  for (Box& box : boxes) {
    Shape offset;
    for (int d = 0; d < box.offset.dims(); ++d) offset.push_back(param.box().offset[d] + box.offset[d]);
    box.offset = offset;
  }
  return boxes;
}

}  // namespace

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const Param& param,
                const Tensor& kept) {
  int64_t first = 0;
  for (const Box& box : boxes_of(param)) {
    tensors.push_back({.name = kind + "." + param.name(),
                       .tensor = kept.flat(first, box.extent.numel()).view(box.extent),
                       .whole = param.whole_shape(),
                       .offset = box.offset});
    first += box.extent.numel();
  }
}

std::vector<float> read_slices(const Checkpoint& checkpoint, const std::string& kind, const Param& param) {
  std::vector<float> values(static_cast<size_t>(param.kept_elements().count()));
  int64_t first = 0;
  for (const Box& box : boxes_of(param)) {
    checkpoint.read_box(kind + "." + param.name(), param.whole_shape(), box, values.data() + first);
    first += box.extent.numel();
  }
  return values;
}

}  // namespace athanor
