#include "athanor/engine/unshard.h"

#include <algorithm>
#include <bit>

#include "athanor/base/check.h"

namespace athanor::engine {

void Gathering::put(const NamedTensor& part) {
  const Shape whole = part.whole.dims() == 0 ? part.shape() : part.whole;
  const Box box = part.whole.dims() == 0 ? whole_box(whole) : Box{part.offset, part.shape()};
  std::vector<float> values(static_cast<size_t>(part.shape().numel()));
  part.copy(0, part.shape().numel(), values.data());
  const std::lock_guard lock(mutex_);
  Parts& parts = tensors_[part.name];
  parts.values.resize(static_cast<size_t>(whole.numel()));
  parts.is_set.resize(parts.values.size());
  BoxRuns(whole, box).walk(0, part.shape().numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(in_whole + i);
      const float value = values[static_cast<size_t>(in_box + i)];
      check(!parts.is_set[at] || std::bit_cast<uint32_t>(parts.values[at]) == std::bit_cast<uint32_t>(value),
            "layout: two ranks hold other values of element {} of '{}'", at, part.name);
      parts.values[at] = value;
      parts.is_set[at] = true;
    }
  });
}

WholeTensors Gathering::whole() {
  WholeTensors all;
  for (auto& [name, parts] : tensors_) {
    check(std::all_of(parts.is_set.begin(), parts.is_set.end(), [](bool is_set) { return is_set; }),
          "layout: no rank holds a part of '{}'", name);
    all[name] = std::move(parts.values);
  }
  return all;
}

}  // namespace athanor::engine
