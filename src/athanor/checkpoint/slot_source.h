// A rank's own slot as a source of tensors: what it holds, and nothing else (checkpoint/format/slot_reader.h).
//
//   training.resume_in_place(SlotSource(slot));
//
// Errors: Error naming the tensor where the slot lacks it, or lacks a part of the box. Thread rule: TensorSource's.
#pragma once

#include <string>

#include "athanor/checkpoint/format/slot_reader.h"
#include "athanor/checkpoint/tensor_source.h"

namespace athanor::checkpoint {

class SlotSource final : public TensorSource {
 public:
  explicit SlotSource(const SlotReader& slot) : slot_(slot) {}
  std::string text() const override;
  bool has(const std::string& name) const override;
  const Shape& shape_of(const std::string& name) const override;
  void read_box(const std::string& name, const Shape& expected, const Box& box, float* values) const override;

 private:
  const PlacedTensor* find(const std::string& name) const;
  const SlotReader& slot_;
};

}  // namespace athanor::checkpoint
