#include "athanor/checkpoint/format/slice_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::checkpoint::format {
namespace {

// Gives the slices of a tensor different names within a file.
std::string entry_name(const HeldSlice& slice) {
  if (slice.box == whole_box(slice.whole)) return slice.name;
  std::string name = slice.name + "@";
  for (int d = 0; d < slice.box.offset.dims(); ++d)
    name += (d > 0 ? "," : "") + std::to_string(slice.box.offset[d]);
  return name;
}

// The plan without writers, and the ranks that hold each slice.
struct Merged {
  SlicePlan plan;
  std::vector<std::vector<int>> holders;  // ascending
};

Merged merge(const std::vector<std::vector<HeldSlice>>& lists, int own_rank) {
  Merged merged;
  std::map<std::string, size_t, std::less<>> tensor_of;
  std::vector<std::vector<size_t>> slices_of;
  for (size_t rank = 0; rank < lists.size(); ++rank)
    for (size_t local = 0; local < lists[rank].size(); ++local) {
      const HeldSlice& held = lists[rank][local];
      const auto [found, is_new] = tensor_of.emplace(held.name, merged.plan.tensors.size());
      if (is_new) {
        merged.plan.tensors.push_back({.name = held.name, .shape = held.whole, .slices = {}});
        slices_of.emplace_back();
      }
      const size_t tensor = found->second;
      ManifestTensor& known = merged.plan.tensors[tensor];
      check(known.shape == held.whole, "checkpoint: tensor '{}': rank {} has {}, another {}", held.name, rank,
            held.whole, known.shape);
      if (held.box.extent.numel() == 0 && held.whole.numel() > 0) continue;  // all padding
      auto& indices = slices_of[tensor];
      const auto same = std::find_if(indices.begin(), indices.end(), [&](size_t index) {
        return known.slices[merged.plan.slices[index].slice].box == held.box;
      });
      const size_t index = same == indices.end() ? merged.plan.slices.size() : *same;
      if (same == indices.end()) {
        indices.push_back(index);
        merged.plan.slices.push_back(
            {.tensor = tensor,
             .slice = known.slices.size(),
             .writer = 0,
             .local = 0,
             .size_bytes = static_cast<uint64_t>(held.box.extent.numel()) * sizeof(float)});
        known.slices.push_back({.file = {}, .entry = entry_name(held), .box = held.box, .hash = {}});
        merged.holders.emplace_back();
      }
      auto& holders = merged.holders[index];
      check(holders.empty() || holders.back() != static_cast<int>(rank),
            "checkpoint: tensor '{}' is given twice", held.name);
      holders.push_back(static_cast<int>(rank));
      if (static_cast<int>(rank) == own_rank) merged.plan.slices[index].local = local;
    }
  return merged;
}

}  // namespace

std::string shard_name(int rank) {
  return fmt::format("tensors-{:05d}.safetensors", rank);
}

SlicePlan plan_slices(const std::vector<std::vector<HeldSlice>>& lists, int rank) {
  auto [plan, holders] = merge(lists, rank);
  for (const ManifestTensor& tensor : plan.tensors)
    if (const std::string fault = cover_fault(tensor); !fault.empty())
      fail("checkpoint: tensor '{}': {}", tensor.name, fault);
  std::vector<size_t> order(plan.slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&plan = plan](size_t a, size_t b) {
    return plan.slices[a].size_bytes > plan.slices[b].size_bytes;
  });
  std::vector<uint64_t> load(lists.size(), 0);
  for (const size_t index : order) {
    const auto load_of = [&](int of) -> uint64_t& { return load[static_cast<size_t>(of)]; };
    SlicePlan::Slice& slice = plan.slices[index];
    slice.writer = *std::min_element(holders[index].begin(), holders[index].end(),
                                     [&](int a, int b) { return load_of(a) < load_of(b); });
    load_of(slice.writer) += slice.size_bytes;
    plan.tensors[slice.tensor].slices[slice.slice].file = shard_name(slice.writer);
  }
  return plan;
}

}  // namespace athanor::checkpoint::format
