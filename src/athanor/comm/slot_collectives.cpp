// The collectives of SlotGroup, each as what a rank does with piece k: bring it in, reduce a slice, take it
// out. docs/collectives.md has the bytes and waits of each.
#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/slot_group.h"

namespace athanor {

namespace {

constexpr size_t kFlatBytes = size_t{32}
                              << 10;  // below this a second wait costs more than summing everything
constexpr int64_t kTreeBlock = 1024;  // floats: a sum over the tree stays in the first-level cache

int64_t pieces_of(int64_t count, int64_t per_piece) {
  return (count + per_piece - 1) / per_piece;
}

// Piece k of `count` elements.
struct Piece {
  int64_t first, length;
};
Piece piece_of(int64_t count, int64_t per_piece, int64_t k) {
  return {k * per_piece, std::min(per_piece, count - k * per_piece)};
}

// The part of a piece that rank r sums: whole cache lines, so that two ranks never write to one.
Piece slice_of(int64_t length, size_t element, int size, int r) {
  const auto line = static_cast<int64_t>(64 / element);
  const int64_t each = ((length + size - 1) / size + line - 1) / line * line;
  const int64_t first = std::min(r * each, length);
  return {first, std::min(each, length - first)};
}

void copy(std::byte* to, const std::byte* from, int64_t count, size_t element) {
  if (count > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(count) * element);
}

}  // namespace

int SlotGroup::bring_in(const PieceSteps& steps, int64_t k) {
  const int which = static_cast<int>(pieces_begun_++ % 2);
  link_.await(slot_free_[static_cast<size_t>(which)]);
  steps.in(k, which);
  return which;
}

// The first piece rides with the announcement: it costs nothing if the calls differ, and saves a wait.
void SlotGroup::run(const Call& call, const PieceSteps& steps) {
  link_.begin(call);
  if (steps.pieces > 0) bring_in(steps, 0);
  run_pieces(steps, link_.announce());
  link_.end();
}

void SlotGroup::run_pieces(const PieceSteps& steps, uint32_t in_event) {
  int which = static_cast<int>((pieces_begun_ + 1) % 2);  // of the piece begun last
  for (int64_t k = 0; k < steps.pieces; ++k) {
    int next = which;
    uint32_t next_event = in_event;
    if (k + 1 < steps.pieces) {
      next = bring_in(steps, k + 1);
      next_event = link_.publish();
    }
    link_.await(in_event);
    if (steps.reduce) {
      steps.reduce(k, which);
      link_.await(link_.publish());
    }
    steps.out(k, which);
    slot_free_[static_cast<size_t>(which)] = link_.publish();
    which = next;
    in_event = next_event;
  }
}

void SlotGroup::run_all_reduce(const Call& call, std::byte* data) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  if (call.count <= static_cast<int64_t>(std::min(kFlatBytes, arena.slot_bytes()) / element))
    return run_all_reduce_flat(call, data);
  const int me = rank(), n = size();
  std::vector<const void*> inputs(static_cast<size_t>(n));
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    const Piece mine = slice_of(piece.length, element, n, me);
    const std::byte* from = data + static_cast<size_t>(piece.first) * element;
    const int64_t after = mine.first + mine.length;
    copy(arena.slot(me, which), from, mine.first, element);
    copy(arena.slot(me, which) + static_cast<size_t>(after) * element,
         from + static_cast<size_t>(after) * element, piece.length - after, element);
  };
  steps.reduce = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    const Piece mine = slice_of(piece.length, element, n, me);
    const size_t offset = static_cast<size_t>(mine.first) * element;
    std::byte* own = data + static_cast<size_t>(piece.first) * element + offset;
    for (int r = 0; r < n; ++r)
      inputs[static_cast<size_t>(r)] = r == me ? own : arena.slot(r, which) + offset;
    ordered_sum(inputs, own, mine.length, call.dtype);
    copy(arena.slot(me, which) + offset, own, mine.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    std::byte* to = data + static_cast<size_t>(piece.first) * element;
    for (int i = 1; i < n; ++i) {
      const int r = (me + i) % n;
      const Piece theirs = slice_of(piece.length, element, n, r);
      const size_t offset = static_cast<size_t>(theirs.first) * element;
      copy(to + offset, arena.slot(r, which) + offset, theirs.length, element);
    }
  };
  run(call, steps);
}

// Every rank sums everything by itself: one wait.
void SlotGroup::run_all_reduce_flat(const Call& call, std::byte* data) {
  const SlotArena& arena = link_.arena();
  std::vector<const void*> inputs(static_cast<size_t>(size()));
  PieceSteps steps;
  steps.pieces = call.count > 0 ? 1 : 0;
  steps.in = [&](int64_t, int which) {
    copy(arena.slot(rank(), which), data, call.count, size_of(call.dtype));
  };
  steps.out = [&](int64_t, int which) {
    for (int r = 0; r < size(); ++r)
      inputs[static_cast<size_t>(r)] = r == rank() ? data : arena.slot(r, which);
    ordered_sum(inputs, data, call.count, call.dtype);
  };
  run(call, steps);
}

// Announces the call with this rank's nodes; returns those of all ranks from left to right, and whose they
// are.
std::vector<LeafRange> SlotGroup::exchange_nodes(const Call& call, const std::vector<TreeNode>& nodes,
                                                 std::vector<int>& owners) {
  // In a slot: the number of nodes, then the first and last leaf of each.
  const auto table = [&](int r, int which) {
    return static_cast<int64_t*>(static_cast<void*>(link_.arena().slot(r, which)));
  };
  std::vector<std::pair<LeafRange, int>> all;
  PieceSteps steps;
  steps.pieces = 1;
  steps.in = [&](int64_t, int which) {
    int64_t* words = table(rank(), which);
    *words++ = static_cast<int64_t>(nodes.size());
    for (const auto& node : nodes) {
      *words++ = node.first;
      *words++ = node.last;
    }
  };
  steps.out = [&](int64_t, int which) {
    for (int r = 0; r < size(); ++r) {
      const int64_t* words = table(r, which);
      for (int64_t i = 0; i < words[0]; ++i) all.push_back({{words[1 + 2 * i], words[2 + 2 * i]}, r});
    }
  };
  link_.begin(call);
  bring_in(steps, 0);
  run_pieces(steps, link_.announce());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LeafRange> ranges;
  owners.clear();
  for (const auto& [range, owner] : all) {
    ranges.push_back(range);
    owners.push_back(owner);
  }
  return ranges;
}

void SlotGroup::run_all_reduce_tree(const Call& call, const std::vector<TreeNode>& nodes, float* result) {
  const SlotArena& arena = link_.arena();
  std::vector<TreeNode> mine = nodes;
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> owners;
  const auto ranges = exchange_nodes(call, mine, owners);
  std::vector<TreeAdd> plan;
  try {
    plan = plan_tree_sum(ranges, call.num_leaves);
  } catch (const Error& error) {
    link_.fail(GroupFailure::Kind::mismatch, rank(), fmt::format("{}: {}", link_.place(), error.what()));
  }
  // Node j of a rank is the j-th part of its slot.
  std::vector<int64_t> nodes_of(static_cast<size_t>(size()), 0);
  std::vector<int64_t> place;
  place.reserve(owners.size());
  for (int owner : owners) place.push_back(nodes_of[static_cast<size_t>(owner)]++);
  const int64_t most = *std::max_element(nodes_of.begin(), nodes_of.end());
  const size_t part_bytes = arena.slot_bytes() / static_cast<size_t>(most) / 64 * 64;
  const auto per_piece = static_cast<int64_t>(part_bytes / sizeof(float));
  const auto part = [&](int owner, int64_t j, int which) {
    return static_cast<float*>(
        static_cast<void*>(arena.slot(owner, which) + static_cast<size_t>(j) * part_bytes));
  };
  const auto node = [&](int i, int which) {
    return part(owners[static_cast<size_t>(i)], place[static_cast<size_t>(i)], which);
  };
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (size_t j = 0; j < mine.size(); ++j)
      std::copy_n(mine[j].data + piece.first, piece.length, part(rank(), static_cast<int64_t>(j), which));
  };
  steps.reduce = [&](int64_t k, int which) {
    const Piece slice = slice_of(piece_of(call.count, per_piece, k).length, sizeof(float), size(), rank());
    for (int64_t at = slice.first; at < slice.first + slice.length; at += kTreeBlock)
      for (const auto& add : plan)
        add_into(node(add.into, which) + at, node(add.from, which) + at,
                 std::min(kTreeBlock, slice.first + slice.length - at));
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    std::copy_n(node(0, which), piece.length, result + piece.first);
  };
  if (steps.pieces > 0) {
    bring_in(steps, 0);
    run_pieces(steps, link_.publish());
  }
  link_.end();
}

void SlotGroup::run_all_gather(const Call& call, const std::byte* in, std::byte* out) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  const auto row = [&](int r, int64_t first) {
    return out + static_cast<size_t>(r * call.count + first) * element;
  };
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    copy(arena.slot(rank(), which), in + static_cast<size_t>(piece.first) * element, piece.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int i = 0; i < size(); ++i) {
      const int r = (rank() + i) % size();
      const std::byte* from =
          r == rank() ? in + static_cast<size_t>(piece.first) * element : arena.slot(r, which);
      copy(row(r, piece.first), from, piece.length, element);
    }
  };
  run(call, steps);
}

void SlotGroup::run_reduce_scatter(const Call& call, const std::byte* in, std::byte* out) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const size_t part_bytes =
      arena.slot_bytes() / static_cast<size_t>(size()) / 64 * 64;  // of a slot, per reader
  const auto per_piece = static_cast<int64_t>(part_bytes / element);
  const auto row = [&](int r, int64_t first) {
    return in + static_cast<size_t>(r * call.count + first) * element;
  };
  const auto part = [&](int from, int reader, int which) {
    return arena.slot(from, which) + static_cast<size_t>(reader) * part_bytes;
  };
  std::vector<const void*> inputs(static_cast<size_t>(size()));
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) copy(part(rank(), r, which), row(r, piece.first), piece.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int r = 0; r < size(); ++r)
      inputs[static_cast<size_t>(r)] = r == rank() ? row(r, piece.first) : part(r, rank(), which);
    ordered_sum(inputs, out + static_cast<size_t>(piece.first) * element, piece.length, call.dtype);
  };
  run(call, steps);
}

void SlotGroup::run_broadcast(const Call& call, std::byte* data) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  const auto at = [&](const Piece& piece) { return data + static_cast<size_t>(piece.first) * element; };
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    if (rank() == call.root) copy(arena.slot(call.root, which), at(piece), piece.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    if (rank() != call.root) copy(at(piece), arena.slot(call.root, which), piece.length, element);
  };
  run(call, steps);
}

}  // namespace athanor
