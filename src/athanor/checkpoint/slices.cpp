#include "athanor/checkpoint/slices.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "athanor/base/check.h"

namespace athanor::checkpoint {
namespace {

constexpr const char* kSlicesCall = "checkpoint slices";

// One slice of a rank's list.
struct Held {
  std::string name;
  Shape whole;
  Box box;
};

Held held(const NamedTensor& named) {
  const Shape& extent = named.shape();
  if (named.offset.dims() == 0) return {named.name, extent, whole_box(extent)};
  return {named.name, named.whole, {named.offset, extent}};
}

// A list serialized as numbers and names, for the all-gather.
class Packer {
 public:
  void number(int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void shape(const Shape& shape) {
    number(shape.dims());
    for (int d = 0; d < shape.dims(); ++d) number(shape[d]);
  }
  void name(const std::string& name) {
    number(static_cast<int64_t>(name.size()));
    text_ += name;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view text) : text_(text) {}
  int64_t number() {
    int64_t value = 0;
    take(sizeof(value)).copy(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
  Shape shape() {
    Shape shape;
    for (int64_t left = number(); left > 0; --left) shape.push_back(number());
    return shape;
  }
  std::string name() { return std::string(take(static_cast<size_t>(number()))); }

 private:
  std::string_view take(size_t count) {
    check(count <= text_.size(), "checkpoint: a rank's list of tensors is cut off");
    const std::string_view taken = text_.substr(0, count);
    text_.remove_prefix(count);
    return taken;
  }
  std::string_view text_;
};

std::string pack(const std::vector<NamedTensor>& tensors) {
  Packer packer;
  packer.number(static_cast<int64_t>(tensors.size()));
  for (const NamedTensor& named : tensors) {
    const Held slice = held(named);
    packer.name(slice.name);
    packer.shape(slice.whole);
    packer.shape(slice.box.offset);
    packer.shape(slice.box.extent);
  }
  return packer.text();
}

// The lists of all ranks.
std::vector<std::vector<Held>> exchange(Group& group, const std::vector<NamedTensor>& tensors) {
  const std::string mine = pack(tensors);
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> sizes(ranks);
  const auto size = static_cast<int64_t>(mine.size());
  group.all_gather(&size, sizes.data(), 1, Dtype::i64, kSlicesCall).wait();
  const auto most = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string padded = mine, all(most * ranks, '\0');
  padded.resize(most);
  group.all_gather(padded.data(), all.data(), static_cast<int64_t>(most), Dtype::u8, kSlicesCall).wait();
  std::vector<std::vector<Held>> lists(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    Unpacker unpacker(std::string_view(all).substr(rank * most, static_cast<size_t>(sizes[rank])));
    for (int64_t left = unpacker.number(); left > 0; --left) {
      Held slice{.name = unpacker.name(), .whole = {}, .box = {}};
      slice.whole = unpacker.shape();
      slice.box.offset = unpacker.shape();
      slice.box.extent = unpacker.shape();
      lists[rank].push_back(std::move(slice));
    }
  }
  return lists;
}

// Gives the slices of a tensor different names within a file.
std::string entry_name(const Held& slice) {
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

Merged merge(const std::vector<std::vector<Held>>& lists, int own_rank) {
  Merged merged;
  std::map<std::string, size_t, std::less<>> tensor_of;
  std::vector<std::vector<size_t>> slices_of;
  for (size_t rank = 0; rank < lists.size(); ++rank)
    for (size_t local = 0; local < lists[rank].size(); ++local) {
      const Held& held = lists[rank][local];
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

SlicePlan plan_slices(Group& group, const std::vector<NamedTensor>& tensors) {
  auto [plan, holders] = merge(exchange(group, tensors), group.rank());
  for (const ManifestTensor& tensor : plan.tensors)
    if (const std::string fault = cover_fault(tensor); !fault.empty())
      fail("checkpoint: tensor '{}': {}", tensor.name, fault);
  std::vector<size_t> order(plan.slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&plan = plan](size_t a, size_t b) {
    return plan.slices[a].size_bytes > plan.slices[b].size_bytes;
  });
  std::vector<uint64_t> load(static_cast<size_t>(group.size()), 0);
  for (const size_t index : order) {
    const auto load_of = [&](int rank) -> uint64_t& { return load[static_cast<size_t>(rank)]; };
    SlicePlan::Slice& slice = plan.slices[index];
    slice.writer = *std::min_element(holders[index].begin(), holders[index].end(),
                                     [&](int a, int b) { return load_of(a) < load_of(b); });
    load_of(slice.writer) += slice.size_bytes;
    plan.tensors[slice.tensor].slices[slice.slice].file = shard_name(slice.writer);
  }
  return plan;
}

}  // namespace athanor::checkpoint
