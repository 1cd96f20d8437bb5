// The collectives of SlotGroup, each as the steps of a rank for piece k: copy it in, reduce a slice, copy the result
// out. docs/collectives.md has the bytes and waits of each.
#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/shm/shm_group.h"

namespace athanor::comm::shm {

namespace {

// Up to this size a second wait costs more than summing everything on every rank. With two ranks that copies no more
// bytes.
constexpr size_t flat_bytes(int ranks) {
  return ranks == 2 ? size_t{512} << 10 : size_t{32} << 10;
}

// Even a short buffer has two pieces, so that one is copied while the other is summed.
constexpr size_t kMinSlotPieceBytes = size_t{64} << 10;
constexpr size_t kMinPieces = 2;

void copy(std::byte* to, const std::byte* from, int64_t count, size_t element) {
  if (count > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(count) * element);
}

}  // namespace

void SlotGroup::bring(std::byte* slot, const std::byte* from, int64_t count, size_t element) {
  across_.copy(slot, from, static_cast<size_t>(count) * element);
}

int SlotGroup::bring_in(const PieceSteps& steps, int64_t k) {
  const int which = static_cast<int>(pieces_begun_++ % 2);
  link_.await(slot_free_[static_cast<size_t>(which)]);
  steps.in(k, which);
  return which;
}

// The first piece is copied in before the announcement, which saves a wait and does no harm if the calls differ. A call
// that may be direct is announced first, since all ranks must know where all buffers lie.
void SlotGroup::run(const Call& call, const PieceSteps& steps) {
  link_.begin(call);
  if (steps.direct && may_be_direct(call.count, call.dtype)) {
    link_.announce();
    if (all_can_address(call)) {
      steps.direct();
    } else {
      bring_in(steps, 0);
      run_pieces(steps, link_.publish());
    }
  } else {
    if (steps.pieces > 0) bring_in(steps, 0);
    run_pieces(steps, link_.announce());
  }
  link_.end();
}

void SlotGroup::run_pieces(const PieceSteps& steps, uint32_t in_event) {
  int which = static_cast<int>((pieces_begun_ + 1) % 2);  // the slot of the piece begun last
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
  const auto flat =
      static_cast<int64_t>(std::min(flat_bytes(size()), link_.arena().slot_bytes()) / size_of(call.dtype));
  PieceSteps steps = call.count <= flat ? flat_sum_steps(call, data) : sliced_sum_steps(call, data);
  steps.direct = [&] { reduce_directly(call); };
  run(call, steps);
}

// Reduce-scatter and all-gather: every rank sums its slice of a piece, then copies the other slices.
PieceSteps SlotGroup::sliced_sum_steps(const Call& call, std::byte* data) {
  const SlotArena arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const size_t piece_bytes =
      std::max(kMinSlotPieceBytes, static_cast<size_t>(call.count) * element / kMinPieces);
  const auto per_piece = static_cast<int64_t>(std::min(arena.slot_bytes(), piece_bytes) / 64 * 64 / element);
  const int64_t count = call.count;
  const int me = rank(), n = size();
  PieceSteps steps;
  steps.pieces = pieces_of(count, per_piece);
  steps.in = [=, this](int64_t k, int which) {
    const Piece piece = piece_of(count, per_piece, k);
    const Piece mine = slice_of(piece.length, element, n, me);
    const std::byte* from = data + static_cast<size_t>(piece.first) * element;
    const int64_t after = mine.first + mine.length;
    bring(arena.slot(me, which), from, mine.first, element);
    bring(arena.slot(me, which) + static_cast<size_t>(after) * element,
          from + static_cast<size_t>(after) * element, piece.length - after, element);
  };
  steps.reduce = [=, this, dtype = call.dtype, inputs = std::vector<const void*>(static_cast<size_t>(n))](
                     int64_t k, int which) mutable {
    const Piece piece = piece_of(count, per_piece, k);
    const Piece mine = slice_of(piece.length, element, n, me);
    const size_t offset = static_cast<size_t>(mine.first) * element;
    std::byte* own = data + static_cast<size_t>(piece.first) * element + offset;
    for (int r = 0; r < n; ++r)
      inputs[static_cast<size_t>(r)] = r == me ? own : arena.slot(r, which) + offset;
    void* const outputs[] = {own, arena.slot(me, which) + offset};
    const bool one_pass = !across_.past_caches();
    ordered_sum(inputs, std::span(outputs, one_pass ? 2 : 1), mine.length, dtype);
    if (!one_pass) bring(arena.slot(me, which) + offset, own, mine.length, element);
  };
  steps.out = [=](int64_t k, int which) {
    const Piece piece = piece_of(count, per_piece, k);
    std::byte* to = data + static_cast<size_t>(piece.first) * element;
    for (int i = 1; i < n; ++i) {
      const int r = (me + i) % n;
      const Piece theirs = slice_of(piece.length, element, n, r);
      const size_t offset = static_cast<size_t>(theirs.first) * element;
      copy(to + offset, arena.slot(r, which) + offset, theirs.length, element);
    }
  };
  return steps;
}

// For small buffers: every rank sums everything, with one wait only.
PieceSteps SlotGroup::flat_sum_steps(const Call& call, std::byte* data) {
  const SlotArena arena = link_.arena();
  const int64_t count = call.count;
  const Dtype dtype = call.dtype;
  PieceSteps steps;
  steps.pieces = count > 0 ? 1 : 0;
  steps.in = [=, this](int64_t, int which) { bring(arena.slot(rank(), which), data, count, size_of(dtype)); };
  steps.out = [=, this, inputs = std::vector<const void*>(static_cast<size_t>(size()))](int64_t,
                                                                                        int which) mutable {
    for (int r = 0; r < size(); ++r)
      inputs[static_cast<size_t>(r)] = r == rank() ? data : arena.slot(r, which);
    void* const output[] = {data};
    ordered_sum(inputs, output, count, dtype);
  };
  return steps;
}

void SlotGroup::run_all_gather(const Call& call, const std::byte* in, std::byte* out) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  const auto row = [&](int r, int64_t first) {
    return out + static_cast<size_t>(r * call.count + first) * element;
  };
  PieceSteps steps;
  steps.direct = [&] {
    copy_directly([&](int r, const std::byte* theirs) { copy(row(r, 0), theirs, call.count, element); });
  };
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    bring(arena.slot(rank(), which), in + static_cast<size_t>(piece.first) * element, piece.length, element);
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

// Row r of every rank's `in` [size, count] is for rank r. A slot has one part per reader; piece k of each row uses its
// part.
void SlotGroup::run_rows(
    const Call& call, const std::byte* in,
    const std::function<void(std::span<const void* const> rows, int64_t first, int64_t length)>& take) {
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
  std::vector<const void*> rows(static_cast<size_t>(size()));
  PieceSteps steps;
  steps.direct = [&] {
    const auto buffers = buffers_of_all();
    for (size_t r = 0; r < rows.size(); ++r)
      rows[r] = buffers[r] + static_cast<size_t>(rank() * call.count) * element;
    take(rows, 0, call.count);
    link_.await(link_.publish());
  };
  steps.pieces = pieces_of(call.count, per_piece);
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) bring(part(rank(), r, which), row(r, piece.first), piece.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int r = 0; r < size(); ++r)
      rows[static_cast<size_t>(r)] = r == rank() ? row(r, piece.first) : part(r, rank(), which);
    take(rows, piece.first, piece.length);
  };
  run(call, steps);
}

void SlotGroup::run_reduce_scatter(const Call& call, const std::byte* in, std::byte* out) {
  run_rows(call, in, [&](std::span<const void* const> rows, int64_t first, int64_t length) {
    void* const output[] = {out + static_cast<size_t>(first) * size_of(call.dtype)};
    ordered_sum(rows, output, length, call.dtype);
  });
}

void SlotGroup::run_all_to_all(const Call& call, const std::byte* in, std::byte* out) {
  const size_t element = size_of(call.dtype);
  run_rows(call, in, [&](std::span<const void* const> rows, int64_t first, int64_t length) {
    // Each rank starts at another one, so that they do not all read from one.
    for (int i = 0; i < size(); ++i) {
      const int r = (rank() + i) % size();
      copy(out + static_cast<size_t>(r * call.count + first) * element,
           static_cast<const std::byte*>(rows[static_cast<size_t>(r)]), length, element);
    }
  });
}

void SlotGroup::run_broadcast(const Call& call, std::byte* data) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  const auto at = [&](const Piece& piece) { return data + static_cast<size_t>(piece.first) * element; };
  steps.direct = [&] {
    copy_directly([&](int r, const std::byte* theirs) {
      if (r == call.root && r != rank()) copy(data, theirs, call.count, element);
    });
  };
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    if (rank() == call.root) bring(arena.slot(call.root, which), at(piece), piece.length, element);
  };
  steps.out = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    if (rank() != call.root) copy(at(piece), arena.slot(call.root, which), piece.length, element);
  };
  run(call, steps);
}

// The root sums alone; the others are done once their piece is in their slot.
void SlotGroup::run_reduce(const Call& call, const std::byte* in, std::byte* out) {
  const SlotArena& arena = link_.arena();
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(arena.slot_bytes() / element);
  std::vector<const void*> inputs(static_cast<size_t>(size()));
  const auto sum = [&](int64_t first, int64_t length) {
    void* const output[] = {out + static_cast<size_t>(first) * element};
    ordered_sum(inputs, output, length, call.dtype);
  };
  PieceSteps steps;
  steps.pieces = pieces_of(call.count, per_piece);
  steps.direct = [&] {
    const auto buffers = buffers_of_all();
    std::copy(buffers.begin(), buffers.end(), inputs.begin());
    if (rank() == call.root) sum(0, call.count);
    link_.await(link_.publish());
  };
  steps.in = [&](int64_t k, int which) {
    const Piece piece = piece_of(call.count, per_piece, k);
    if (rank() != call.root)
      bring(arena.slot(rank(), which), in + static_cast<size_t>(piece.first) * element, piece.length,
            element);
  };
  steps.out = [&](int64_t k, int which) {
    if (rank() != call.root) return;
    const Piece piece = piece_of(call.count, per_piece, k);
    for (int r = 0; r < size(); ++r)
      inputs[static_cast<size_t>(r)] =
          r == rank() ? in + static_cast<size_t>(piece.first) * element : arena.slot(r, which);
    sum(piece.first, piece.length);
  };
  run(call, steps);
}

}  // namespace athanor::comm::shm
