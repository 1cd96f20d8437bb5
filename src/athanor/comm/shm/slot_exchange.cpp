// gather, scatter and all_to_all_v of SlotGroup: one exchange of rows, piece by piece of every rank's stream
// (exchange.h).
#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/exchange.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/shm/shm_group.h"

namespace athanor::comm::shm {

namespace {

// The part of the row [first, first + length) of a stream that lies in a piece.
Piece overlap(const Piece& piece, int64_t first, int64_t length) {
  const int64_t begin = std::max(piece.first, first);
  return {begin, std::max<int64_t>(0, std::min(piece.first + piece.length, first + length) - begin)};
}

}  // namespace

PieceSteps SlotGroup::exchange_steps(const Call& call, const Exchange& rows, const std::byte* in,
                                     std::byte* out) {
  const size_t element = size_of(call.dtype);
  const auto per_piece = static_cast<int64_t>(link_.arena().slot_bytes() / element);
  PieceSteps steps;
  steps.pieces = pieces_of(rows.longest_stream(), per_piece);
  const auto bytes = [element](int64_t count) { return static_cast<size_t>(count) * element; };
  const auto piece_of_stream = [&rows, per_piece](int from, int64_t k) {
    const int64_t first = std::min(k * per_piece, rows.stream_length(from));
    return Piece{first, std::min(per_piece, rows.stream_length(from) - first)};
  };
  steps.in = [=, this, &rows](int64_t k, int which) {
    const Piece piece = piece_of_stream(rank(), k);
    for (int to = 0; to < size(); ++to) {
      if (to == rank()) continue;
      const int64_t first = rows.stream_offset(rank(), to);
      const Piece part = overlap(piece, first, rows.count(rank(), to));
      if (part.length > 0)
        bring(link_.arena().slot(rank(), which) + bytes(part.first - piece.first),
              in + bytes(rows.in_offset(rank(), to) + part.first - first), part.length, element);
    }
  };
  steps.out = [=, this, &rows](int64_t k, int which) {
    for (int i = 1; i < size(); ++i) {
      const int from = (rank() + i) % size();
      const Piece piece = piece_of_stream(from, k);
      const int64_t first = rows.stream_offset(from, rank());
      const Piece part = overlap(piece, first, rows.count(from, rank()));
      if (part.length > 0)
        std::memcpy(out + bytes(rows.out_offset(from, rank()) + part.first - first),
                    link_.arena().slot(from, which) + bytes(part.first - piece.first), bytes(part.length));
    }
  };
  steps.direct = [=, this, &rows] {
    copy_directly([&](int from, const std::byte* theirs) {
      const int64_t count = rows.count(from, rank());
      if (from != rank() && count > 0)
        std::memcpy(out + bytes(rows.out_offset(from, rank())), theirs + bytes(rows.in_offset(from, rank())),
                    bytes(count));
    });
  };
  return steps;
}

void SlotGroup::keep_own_row(const Call& call, const Exchange& rows, const std::byte* in,
                             std::byte* out) const {
  const size_t element = size_of(call.dtype);
  const int64_t count = rows.count(rank(), rank());
  if (count == 0) return;
  const std::byte* from = in + static_cast<size_t>(rows.in_offset(rank(), rank())) * element;
  std::byte* to = out + static_cast<size_t>(rows.out_offset(rank(), rank())) * element;
  if (to != from) std::memcpy(to, from, static_cast<size_t>(count) * element);
}

void SlotGroup::run_exchange(const Call& call, const Exchange& rows, const std::byte* in, std::byte* out) {
  run(call, exchange_steps(call, rows, in, out));
  keep_own_row(call, rows, in, out);
}

// Announces the call with this rank's counts in its slot, then compares the counts of all ranks.
Exchange SlotGroup::exchange_counts(const Call& call, std::span<const int64_t> send_counts,
                                    std::span<const int64_t> recv_counts) {
  const auto n = static_cast<size_t>(size());
  std::vector<int64_t> sent(n * n), received(n * n);
  const auto table = [&](size_t r, int which) { return link_.arena().slot(static_cast<int>(r), which); };
  const size_t row_bytes = n * sizeof(int64_t);
  PieceSteps steps;
  steps.pieces = 1;
  steps.in = [&](int64_t, int which) {
    std::byte* words = table(static_cast<size_t>(rank()), which);
    std::memcpy(words, send_counts.data(), row_bytes);
    std::memcpy(words + row_bytes, recv_counts.data(), row_bytes);
  };
  steps.out = [&](int64_t, int which) {
    for (size_t r = 0; r < n; ++r) {
      std::memcpy(&sent[r * n], table(r, which), row_bytes);
      std::memcpy(&received[r * n], table(r, which) + row_bytes, row_bytes);
    }
  };
  link_.begin(call);
  bring_in(steps, 0);
  run_pieces(steps, link_.announce());
  const std::string difference = compare_counts(sent, received, size());
  if (!difference.empty())
    link_.fail(GroupFailure::Kind::mismatch, rank(), fmt::format("{}: {}", link_.place(), difference));
  return {size(), std::move(sent)};
}

void SlotGroup::run_all_to_all_v(const Call& call, std::span<const int64_t> send_counts,
                                 std::span<const int64_t> recv_counts, const std::byte* in, std::byte* out) {
  const Exchange rows = exchange_counts(call, send_counts, recv_counts);
  const PieceSteps steps = exchange_steps(call, rows, in, out);
  bool shared = may_be_direct(rows.longest_stream(), call.dtype);
  for (int r = 0; r < size(); ++r) shared = shared && (link_.place(r) != 0 || rows.stream_length(r) == 0);
  if (shared) {
    steps.direct();
  } else if (steps.pieces > 0) {
    bring_in(steps, 0);
    run_pieces(steps, link_.publish());
  }
  link_.end();
  keep_own_row(call, rows, in, out);
}

}  // namespace athanor::comm::shm
