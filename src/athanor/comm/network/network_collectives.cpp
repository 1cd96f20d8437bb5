// The collectives of WireGroup, run within a call after the headers of all ranks have been compared.
#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/network/network_group.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/pieces.h"

namespace athanor::comm::network {

namespace {

constexpr size_t kMinWirePieceBytes = size_t{64} << 10;

}  // namespace

void WireGroup::reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) {
  const int me = rank(), n = size();
  const size_t element = size_of(dtype);
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.count);
  const size_t piece_bytes =
      std::max(kMinWirePieceBytes, link_.options().slot_bytes / static_cast<size_t>(n - 1));
  const int64_t per_piece = std::min(static_cast<int64_t>(piece_bytes / element), longest);
  if (longest == 0) return;
  const int64_t pieces = pieces_of(longest, per_piece);
  const auto part = [&](const InRow& row, int64_t k) {  // piece k; empty beyond the row's end
    return Piece{std::min(k * per_piece, row.count),
                 std::clamp<int64_t>(row.count - k * per_piece, 0, per_piece)};
  };
  const InRow& own = rows[static_cast<size_t>(me)];
  const size_t part_bytes = bytes_of(std::min(per_piece, own.count), element);
  staging_.resize(std::max(staging_.size(), 2 * static_cast<size_t>(n - 1) * part_bytes));
  // Where piece k of rank (me + i) mod n is received.
  const auto staged = [&](int64_t k, int i) {
    return staging_.data() + static_cast<size_t>((k % 2) * (n - 1) + i - 1) * part_bytes;
  };
  Transfers transfers[2] = {{link_, data_channel_}, {link_, data_channel_}};
  const auto begin = [&](int64_t k) {
    for (int i = 1; i < n; ++i)
      transfers[k % 2].recv((me + i) % n, staged(k, i), bytes_of(part(own, k).length, element));
    for (int i = 1; i < n; ++i) {
      const int to = (me + n - i) % n;
      const InRow& row = rows[static_cast<size_t>(to)];
      const Piece piece = part(row, k);
      transfers[k % 2].send(to, row.data + bytes_of(piece.first, element), bytes_of(piece.length, element));
    }
  };
  std::vector<const void*> inputs(static_cast<size_t>(n));
  begin(0);
  for (int64_t k = 0; k < pieces; ++k) {
    if (k + 1 < pieces) begin(k + 1);
    transfers[k % 2].wait();
    const Piece piece = part(own, k);
    inputs[static_cast<size_t>(me)] = own.data + bytes_of(piece.first, element);
    for (int i = 1; i < n; ++i) inputs[static_cast<size_t>((me + i) % n)] = staged(k, i);
    void* const output[] = {out + bytes_of(piece.first, element)};
    ordered_sum(inputs, output, piece.length, dtype);
  }
}

void WireGroup::gather_rows(std::span<const OutRow> rows, size_t element) {
  const int me = rank(), n = size();
  const OutRow& own = rows[static_cast<size_t>(me)];
  Transfers transfers(link_, data_channel_);
  for (int i = 1; i < n; ++i) {
    const OutRow& row = rows[static_cast<size_t>((me + i) % n)];
    transfers.recv((me + i) % n, row.data, bytes_of(row.count, element));
  }
  for (int i = 1; i < n; ++i) transfers.send((me + n - i) % n, own.data, bytes_of(own.count, element));
  transfers.wait();
}

void WireGroup::exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) {
  const int me = rank(), n = size();
  Transfers transfers(link_, data_channel_);
  for (int i = 1; i < n; ++i) {
    const OutRow& row = out[static_cast<size_t>((me + i) % n)];
    transfers.recv((me + i) % n, row.data, bytes_of(row.count, element));
  }
  for (int i = 1; i < n; ++i) {
    const InRow& row = in[static_cast<size_t>((me + n - i) % n)];
    transfers.send((me + n - i) % n, row.data, bytes_of(row.count, element));
  }
  const InRow& own = in[static_cast<size_t>(me)];
  copy_own(out[static_cast<size_t>(me)].data, own.data, bytes_of(own.count, element));
  transfers.wait();
}

void WireGroup::copy_own(void* to, const void* from, size_t size_bytes) {
  if (size_bytes > 0 && to != from) std::memcpy(to, from, size_bytes);
}

// Each rank tells every other rank how many elements it will send, before any receive is started for them.
void WireGroup::check_counts_of_all(std::span<const int64_t> send_counts,
                                    std::span<const int64_t> recv_counts) {
  std::vector<int64_t> sent(static_cast<size_t>(size()));
  Transfers transfers(link_, data_channel_);
  for (int i = 1; i < size(); ++i) {
    const auto r = static_cast<size_t>((rank() + i) % size());
    transfers.recv(static_cast<int>(r), &sent[r], sizeof(int64_t));
    transfers.send_uncounted(static_cast<int>(r), &send_counts[r], sizeof(int64_t));
  }
  transfers.wait();
  sent[static_cast<size_t>(rank())] = send_counts[static_cast<size_t>(rank())];
  for (size_t r = 0; r < sent.size(); ++r)
    if (sent[r] != recv_counts[r])
      link_.fail(GroupFailure::Kind::mismatch, rank(),
                 fmt::format("{}: rank {} has {} elements for rank {}, which expects {}", link_.place(), r,
                             sent[r], rank(), recv_counts[r]));
}

}  // namespace athanor::comm::network
