// How NcclGroup moves rows and sums them, within a call: everything is submitted to the link's stream, in its order.
#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/comm/nccl/nccl_group.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/tree.h"

namespace athanor::comm::nccl {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // rows are received and summed in pieces of this size

void check_kernel(const char* error) {
  if (error != nullptr) throw NcclError(fmt::format("nccl: a sum on the device: {}", error));
}

void add_message(std::vector<NcclMessage>& messages, bool is_send, int peer, const void* data,
                 size_t size_bytes) {
  // What is sent is only read.
  if (size_bytes > 0) messages.push_back({is_send, peer, const_cast<void*>(data), size_bytes});
}

}  // namespace

// The staging buffer, kept for the next call. New memory may still be in use by work that was submitted to the queue
// after the start of this call, so the link waits for that work.
std::byte* NcclGroup::staging(size_t size_bytes) {
  if (!staging_.defined() || staging_.size_bytes() < size_bytes) {
    staging_ = Tensor();
    staging_ = empty(device_.arena, {static_cast<int64_t>(size_bytes)}, Dtype::u8, Category::communication);
    link_.wait_for(CudaEvent(device_.queue));
  }
  return static_cast<std::byte*>(staging_.raw());
}

void NcclGroup::reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) {
  const int me = rank(), n = size();
  const size_t element = size_of(dtype);
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.count);
  if (longest == 0) return;
  const int64_t per_piece = std::min(kPieceBytes / static_cast<int64_t>(element), longest);
  const auto part = [&](const InRow& row, int64_t k) {  // piece k; empty beyond the row's end
    return Piece{std::min(k * per_piece, row.count),
                 std::clamp<int64_t>(row.count - k * per_piece, 0, per_piece)};
  };
  const InRow& own = rows[static_cast<size_t>(me)];
  std::byte* const staged = staging(static_cast<size_t>(n) * bytes_of(per_piece, element));
  for (int64_t k = 0; k < pieces_of(longest, per_piece); ++k) {
    const Piece piece = part(own, k);
    const size_t piece_bytes = bytes_of(piece.length, element);
    std::vector<NcclMessage> messages;
    for (int r = 0; r < n; ++r) {
      if (r == me) continue;
      const InRow& row = rows[static_cast<size_t>(r)];
      const Piece theirs = part(row, k);
      add_message(messages, true, r, row.data + bytes_of(theirs.first, element),
                  bytes_of(theirs.length, element));
      add_message(messages, false, r, staged + static_cast<size_t>(r) * piece_bytes, piece_bytes);
    }
    link_.transfer(messages, look_);
    if (piece.length == 0) continue;
    link_.copy(staged + static_cast<size_t>(me) * piece_bytes, own.data + bytes_of(piece.first, element),
               piece_bytes);
    check_kernel(device_.queue.calls().kernels->sum_rows(
        link_.stream(), dtype, out + bytes_of(piece.first, element), staged, n, piece.length));
  }
}

void NcclGroup::gather_rows(std::span<const OutRow> rows, size_t element) {
  const OutRow& own = rows[static_cast<size_t>(rank())];
  std::vector<NcclMessage> messages;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const OutRow& row = rows[static_cast<size_t>(r)];
    add_message(messages, true, r, own.data, bytes_of(own.count, element));
    add_message(messages, false, r, row.data, bytes_of(row.count, element));
  }
  link_.transfer(messages, look_);
}

void NcclGroup::exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) {
  const auto me = static_cast<size_t>(rank());
  std::vector<NcclMessage> messages;
  for (size_t r = 0; r < in.size(); ++r) {
    if (r == me) continue;
    add_message(messages, true, static_cast<int>(r), in[r].data, bytes_of(in[r].count, element));
    add_message(messages, false, static_cast<int>(r), out[r].data, bytes_of(out[r].count, element));
  }
  copy_own(out[me].data, in[me].data, bytes_of(in[me].count, element));
  link_.transfer(messages, look_);
}

void NcclGroup::copy_own(void* to, const void* from, size_t size_bytes) {
  if (size_bytes > 0 && to != from) link_.copy(to, from, size_bytes);
}

// All ranks exchange which nodes they hold, so all make the same plan.
SharedTree NcclGroup::share_nodes(const std::vector<TreeNode>& nodes, int64_t num_leaves,
                                  const std::string& place) {
  std::vector<int64_t> counts(static_cast<size_t>(size()));
  const int64_t own_count = std::ssize(nodes);
  host_->all_gather(&own_count, counts.data(), 1, Dtype::i64, "number of nodes").wait();
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  std::vector<int64_t> own(static_cast<size_t>(2 * most)), all(own.size() * counts.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    own[2 * i] = nodes[i].first;
    own[2 * i + 1] = nodes[i].last;
  }
  host_->all_gather(own.data(), all.data(), 2 * most, Dtype::i64, "nodes").wait();
  std::vector<std::vector<int64_t>> tables;
  for (size_t r = 0; r < counts.size(); ++r) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(r * own.size());
    tables.emplace_back(first, first + 2 * counts[r]);
  }
  try {
    return share_tree(tables, num_leaves);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", place, error.what()));
  }
}

void NcclGroup::run_all_reduce_tree(const SharedTree& tree, const std::vector<TreeNode>& nodes, float* result,
                                    int64_t count) {
  const int me = rank(), n = size();
  const auto first_of = [&](int r) {  // the first element of rank r's slice
    return r * (count / n) + std::min<int64_t>(r, count % n);
  };
  const int64_t longest = even_part(count, n, 0);
  const int64_t per_piece = std::min(kPieceBytes / static_cast<int64_t>(sizeof(float)), longest);
  auto* const memory = static_cast<float*>(
      static_cast<void*>(staging(tree.nodes.size() * static_cast<size_t>(per_piece) * sizeof(float))));
  const auto staged = [&](size_t node) { return memory + static_cast<int64_t>(node) * per_piece; };
  for (int64_t k = 0; k < pieces_of(longest, per_piece); ++k) {
    const auto length = [&](int r) {
      return std::clamp<int64_t>(even_part(count, n, r) - k * per_piece, 0, per_piece);
    };
    const size_t own_bytes = bytes_of(length(me), sizeof(float));
    std::vector<NcclMessage> messages;
    size_t next = 0;
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      if (tree.nodes[i].owner != me) {
        add_message(messages, false, tree.nodes[i].owner, staged(i), own_bytes);
        continue;
      }
      const float* data = nodes[next++].data + k * per_piece;
      for (int r = 0; r < n; ++r)
        if (r != me) add_message(messages, true, r, data + first_of(r), bytes_of(length(r), sizeof(float)));
      if (own_bytes > 0) link_.copy(staged(i), data + first_of(me), own_bytes);
    }
    link_.transfer(messages, look_);
    if (own_bytes == 0) continue;
    for (const auto& step : tree.adds)
      check_kernel(
          device_.queue.calls().kernels->accumulate(link_.stream(), staged(static_cast<size_t>(step.into)),
                                                    staged(static_cast<size_t>(step.from)), length(me)));
    link_.copy(result + first_of(me) + k * per_piece, staged(0), own_bytes);
  }
  gather_slices(result, count, Dtype::f32);
}

}  // namespace athanor::comm::nccl
