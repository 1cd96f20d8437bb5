#include "athanor/engine/param_slices.h"

namespace athanor::engine {

int64_t StateTensor::numel() const {
  int64_t numel = 0;
  for (const Box& box : boxes) numel += box.extent.numel();
  return numel;
}

StateTensor kept_part(const std::string& kind, const ParamSpec& param, const FlatRange& range,
                      KeptElements kept) {
  return {.name = kind + "." + param.name(),
          .whole = param.whole_shape(),
          .boxes = param.boxes(range),
          .padding = range.count() - param.unpadded(range).count(),
          .kept = std::move(kept)};
}

void add_slices(std::vector<NamedTensor>& tensors, const StateTensor& part) {
  int64_t first = 0;
  for (const Box& box : part.boxes) {
    NamedTensor slice{.name = part.name,
                      .tensor = {},
                      .whole = part.whole,
                      .offset = box.offset,
                      .shape_elsewhere = box.extent};
    if (part.kept.tensor.defined()) {
      slice.tensor = part.kept.tensor.flat(first, box.extent.numel()).view(box.extent);
    } else {
      slice.read = [read = part.kept.read, first](int64_t from, int64_t count, float* values) {
        read(first + from, count, values);
      };
    }
    tensors.push_back(std::move(slice));
    first += box.extent.numel();
  }
}

void add_slices(std::vector<NamedTensor>& tensors, const std::string& kind, const ParamSpec& param,
                const FlatRange& range, const KeptElements& kept) {
  add_slices(tensors, kept_part(kind, param, range, kept));
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
