#include "athanor/engine/param_slices.h"

namespace athanor::engine {

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const ParamSpec& param,
                const FlatRange& range, const KeptElements& kept) {
  int64_t first = 0;
  for (const Box& box : param.boxes(range)) {
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

std::vector<float> read_slices(const TensorSource& source, const std::string& kind, const ParamSpec& param,
                               const FlatRange& range) {
  std::vector<float> values(static_cast<size_t>(param.unpadded(range).count()));
  int64_t first = 0;
  for (const Box& box : param.boxes(range)) {
    source.read_box(kind + "." + param.name(), param.whole_shape(), box, values.data() + first);
    first += box.extent.numel();
  }
  return values;
}

}  // namespace athanor::engine
