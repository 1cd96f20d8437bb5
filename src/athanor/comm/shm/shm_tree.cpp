// all_reduce_tree of SlotGroup: the ranks exchange which nodes they hold, so all make the same plan.
#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/shm/shm_group.h"

namespace athanor::comm::shm {

namespace {

constexpr int64_t kTreeBlock = 1024;  // floats; a sum over the tree stays in the L1 cache

const std::byte* as_bytes(const float* x) {
  return static_cast<const std::byte*>(static_cast<const void*>(x));
}
float* as_floats(std::byte* x) {
  return static_cast<float*>(static_cast<void*>(x));
}

// Sums the nodes of a tree, a block of at most kTreeBlock floats at a time, in memory of its own.
class TreeSum {
 public:
  TreeSum(const std::vector<TreeAdd>& plan, size_t num_nodes)
      : plan_(plan), sums_(num_nodes * static_cast<size_t>(kTreeBlock)), values_(num_nodes) {}

  // Where each node's block lies; set it before each sum.
  std::vector<const float*>& values() { return values_; }
  const float* sum(int64_t count) {
    for (const auto& step : plan_) {
      const auto into = static_cast<size_t>(step.into);
      float* const partial = sums_.data() + into * static_cast<size_t>(kTreeBlock);
      add(partial, values_[into], values_[static_cast<size_t>(step.from)], count);
      values_[into] = partial;
    }
    return values_[0];
  }

 private:
  const std::vector<TreeAdd>& plan_;
  std::vector<float> sums_;  // [nodes, kTreeBlock]
  std::vector<const float*> values_;
};

}  // namespace

// Announces the call with this rank's nodes; returns the nodes of all ranks, from left to right.
std::vector<TreePart> SlotGroup::exchange_nodes(const Call& call, const std::vector<TreeNode>& nodes) {
  // Contents of a slot: the number of nodes; for each node its first and last leaf and its place.
  const auto table = [&](int r, int which) {
    return static_cast<int64_t*>(static_cast<void*>(link_.arena().slot(r, which)));
  };
  std::vector<TreePart> all;
  PieceSteps steps;
  steps.pieces = 1;
  steps.in = [&](int64_t, int which) {
    int64_t* words = table(rank(), which);
    *words++ = static_cast<int64_t>(nodes.size());
    for (const auto& node : nodes) {
      *words++ = node.first;
      *words++ = node.last;
      *words++ =
          static_cast<int64_t>(regions_.place_of(node.data, static_cast<size_t>(call.count) * sizeof(float)));
    }
  };
  steps.out = [&](int64_t, int which) {
    for (int r = 0; r < size(); ++r) {
      const int64_t* words = table(r, which);
      const int64_t count = *words++;
      for (int64_t i = 0; i < count; ++i, words += 3)
        all.push_back({{words[0], words[1]}, r, static_cast<SharedPlace>(words[2])});
    }
  };
  link_.begin(call);
  bring_in(steps, 0);
  run_pieces(steps, link_.announce());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.range < b.range; });
  return all;
}

void SlotGroup::run_all_reduce_tree(const Call& call, const std::vector<TreeNode>& nodes, float* result) {
  std::vector<TreeNode> mine = nodes;
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto parts = exchange_nodes(call, mine);
  std::vector<LeafRange> ranges;
  ranges.reserve(parts.size());
  for (const auto& part : parts) ranges.push_back(part.range);
  std::vector<TreeAdd> plan;
  try {
    plan = plan_tree_sum(ranges, call.num_leaves);
  } catch (const Error& error) {
    link_.fail(GroupFailure::Kind::mismatch, rank(), fmt::format("{}: {}", link_.place(), error.what()));
  }
  const bool shared =
      std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.place != 0; });
  if (shared && may_be_direct(call.count, call.dtype) && all_can_address(call)) {
    sum_tree_directly(call, parts, plan);
  } else {
    sum_tree_in_slots(call, parts, plan, mine, result);
  }
  link_.end();
}

void SlotGroup::sum_tree_in_slots(const Call& call, const std::vector<TreePart>& parts,
                                  const std::vector<TreeAdd>& plan, const std::vector<TreeNode>& mine,
                                  float* result) {
  const SlotArena& arena = link_.arena();
  // Node j of a rank uses the j-th part of its slot.
  std::vector<int64_t> nodes_of(static_cast<size_t>(size()), 0);
  std::vector<int64_t> place;
  place.reserve(parts.size());
  for (const auto& part : parts) place.push_back(nodes_of[static_cast<size_t>(part.owner)]++);
  const int64_t most = *std::max_element(nodes_of.begin(), nodes_of.end());
  const size_t part_bytes = arena.slot_bytes() / static_cast<size_t>(most) / 64 * 64;
  const auto per_piece = static_cast<int64_t>(part_bytes / sizeof(float));
  const auto slot = [&](int owner, int64_t j, int which, int64_t at) {
    return arena.slot(owner, which) + static_cast<size_t>(j) * part_bytes + bytes_of(at, sizeof(float));
  };
  const auto node = [&](size_t i, int which, int64_t at) {
    return slot(parts[i].owner, place[i], which, at);
  };
  TreeSum tree(plan, parts.size());
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (size_t j = 0; j < mine.size(); ++j)
      bring(slot(rank(), static_cast<int64_t>(j), which, 0), as_bytes(mine[j].data + piece.first),
            piece.length, sizeof(float));
  };
  steps.reduce = [&](int64_t k, int which) {
    const Piece slice = slice_of(piece_of(call.count, per_piece, k).length, sizeof(float), size(), rank());
    for (int64_t at = slice.first; at < slice.first + slice.length; at += kTreeBlock) {
      const int64_t block = std::min(kTreeBlock, slice.first + slice.length - at);
      for (size_t i = 0; i < parts.size(); ++i) tree.values()[i] = as_floats(node(i, which, at));
      const std::byte* total = as_bytes(tree.sum(block));
      std::byte* const root = node(0, which, at);
      if (total != root) bring(root, total, block, sizeof(float));
    }
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    std::copy_n(as_floats(node(0, which, 0)), piece.length, result + piece.first);
  };
  if (steps.pieces > 0) {
    bring_in(steps, 0);
    run_pieces(steps, link_.publish());
  }
}

// Partial sums have memory of their own, block by block, so the nodes keep their values.
void SlotGroup::sum_tree_directly(const Call& call, const std::vector<TreePart>& parts,
                                  const std::vector<TreeAdd>& plan) {
  std::vector<const float*> nodes;
  nodes.reserve(parts.size());
  for (const auto& part : parts) nodes.push_back(as_floats(regions_.at(part.place, part.owner)));
  const auto results = buffers_of_all();
  TreeSum tree(plan, nodes.size());
  share_work(call.count, sizeof(float), [&](int64_t first, int64_t length) {
    for (int64_t at = first; at < first + length; at += kTreeBlock) {
      const int64_t block = std::min(kTreeBlock, first + length - at);
      for (size_t i = 0; i < nodes.size(); ++i) tree.values()[i] = nodes[i] + at;
      const float* total = tree.sum(block);
      for (std::byte* result : results)
        if (as_floats(result) + at != total)
          std::memcpy(as_floats(result) + at, total, static_cast<size_t>(block) * sizeof(float));
    }
  });
}

}  // namespace athanor::comm::shm
