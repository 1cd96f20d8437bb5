#include "athanor/autograd/param_spec.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::autograd {

void ParamSpec::shard(const Shard& shard) {
  check(0 <= shard.rank && shard.rank < shard.size && 0 <= shard.copy && shard.copy < shard.copies,
        "param: '{}': got shard {} of {}, replica {} of {}", name_, shard.rank, shard.size, shard.copy,
        shard.copies);
  if (shard.size > 1) {
    check(shard.dim >= 0 && shard.dim < shape_.dims(), "param: '{}' {} has no dimension {}", name_, shape_,
          shard.dim);
    const int64_t length = shape_[shard.dim], part = (length + shard.size - 1) / shard.size;
    check(shard.dim == 0 || part * shard.size == length,
          "param: '{}': dimension {} of {} does not divide by {}", name_, shard.dim, shape_, shard.size);
    Shape shape, offset, extent;
    for (int d = 0; d < shape_.dims(); ++d) {
      const int64_t skipped = d == shard.dim ? std::min(box_.extent[d], shard.rank * part) : 0;
      shape.push_back(d == shard.dim ? part : shape_[d]);
      offset.push_back(box_.offset[d] + skipped);
      extent.push_back(d == shard.dim ? std::min(part, box_.extent[d] - skipped) : box_.extent[d]);
    }
    shape_ = shape;
    box_ = {offset, extent};
  }
  shards_.push_back(shard);
}

bool ParamSpec::is_first_copy() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& shard) { return shard.copy == 0; });
}

ParamSpec::Part ParamSpec::part(int dim) const {
  Part part{0, 1};
  for (const Shard& shard : shards_)
    if (shard.size > 1 && shard.dim == dim)
      part = {part.rank * shard.size + shard.rank, part.size * shard.size};
  return part;
}

FlatRange ParamSpec::unpadded(const FlatRange& range) const {
  const int64_t end = box_.extent.numel();
  return {std::min(range.first, end), std::min(range.last, end)};
}

std::vector<Box> ParamSpec::boxes(const FlatRange& range) const {
  const FlatRange kept = unpadded(range);
  std::vector<Box> boxes = boxes_of(box_.extent, kept.first, kept.last);
  for (Box& box : boxes) {
    Shape offset;
    for (int d = 0; d < box.offset.dims(); ++d) offset.push_back(box_.offset[d] + box.offset[d]);
    box.offset = offset;
  }
  return boxes;
}

}  // namespace athanor::autograd
