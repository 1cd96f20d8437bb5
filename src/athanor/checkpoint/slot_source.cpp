#include "athanor/checkpoint/slot_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::checkpoint {

const PlacedTensor* SlotSource::find(const std::string& name) const {
  const auto& tensors = slot_.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const PlacedTensor& placed) { return placed.tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string SlotSource::text() const {
  return fmt::format("the slot of step {}", slot_.step());
}

bool SlotSource::has(const std::string& name) const {
  return find(name) != nullptr;
}

const Shape& SlotSource::shape_of(const std::string& name) const {
  const PlacedTensor* found = find(name);
  check(found != nullptr, "{}: the tensor '{}' is missing", text(), name);
  return found->tensor.shape;
}

void SlotSource::read_box(const std::string& name, const Shape& expected, const Box& box,
                          float* values) const {
  const int64_t count = slot_.read_box(name, Dtype::f32, expected, box, values);
  check(count == box.extent.numel(), "{}: tensor '{}': got {} of {} elements of a box", text(), name, count,
        box.extent.numel());
}

}  // namespace athanor::checkpoint
