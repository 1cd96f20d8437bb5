#include "athanor/checkpoint/slices.h"

#include <utility>

#include "athanor/checkpoint/rank_lists.h"

namespace athanor::checkpoint {
namespace {

std::string pack(const std::vector<NamedTensor>& tensors) {
  Packer packer;
  for (const NamedTensor& named : tensors) {
    packer.name(named.name);
    packer.shape(named.whole_shape());
    packer.box(named.box());
  }
  return packer.text();
}

}  // namespace

SlicePlan plan_slices(Group& group, const std::vector<NamedTensor>& tensors) {
  std::vector<std::vector<HeldSlice>> lists;
  for (const std::string& text : gather_texts(group, pack(tensors), "checkpoint slices")) {
    std::vector<HeldSlice>& list = lists.emplace_back();
    for (Unpacker unpacker(text); !unpacker.at_end();) {
      HeldSlice slice{.name = unpacker.name(), .whole = {}, .box = {}};
      slice.whole = unpacker.shape();
      slice.box = unpacker.box();
      list.push_back(std::move(slice));
    }
  }
  return format::plan_slices(lists, group.rank());
}

}  // namespace athanor::checkpoint
