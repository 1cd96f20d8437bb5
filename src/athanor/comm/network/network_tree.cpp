// all_reduce_tree of WireGroup: every owner sums its slice up to the root.
#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/comm/network/network_group.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/tree.h"

namespace athanor::comm::network {

namespace {

constexpr size_t kMinTreePieceBytes = size_t{16} << 10;

}  // namespace

void WireGroup::run_all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result,
                                    int64_t count) {
  const int me = rank(), n = size();
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // All ranks exchange which nodes they hold, so all make the same plan.
  std::vector<std::vector<int64_t>> tables(static_cast<size_t>(n));
  for (const auto& node : nodes) {
    tables[static_cast<size_t>(me)].push_back(node.first);
    tables[static_cast<size_t>(me)].push_back(node.last);
  }
  Transfers exchange(link_, data_channel_);
  for (int i = 1; i < n; ++i) {
    const int from = (me + i) % n;
    auto& table = tables[static_cast<size_t>(from)];
    table.resize(static_cast<size_t>(2 * link_.extra(from)));
    exchange.recv(from, table.data(), table.size() * sizeof(int64_t));
  }
  for (int i = 1; i < n; ++i)
    exchange.send_uncounted((me + i) % n, tables[static_cast<size_t>(me)].data(),
                            2 * nodes.size() * sizeof(int64_t));
  exchange.wait();
  SharedTree tree;
  try {
    tree = share_tree(tables, num_leaves);
  } catch (const Error& error) {
    link_.fail(GroupFailure::Kind::mismatch, rank(), fmt::format("{}: {}", link_.place(), error.what()));
  }
  const auto& parts = tree.nodes;

  if (count == 0) return;
  const auto first_of = [&](int r) {  // the first element of rank r's slice
    return r * (count / n) + std::min<int64_t>(r, count % n);
  };
  const size_t piece_bytes = std::max(kMinTreePieceBytes, link_.options().slot_bytes / parts.size());
  const auto per_piece = std::min(static_cast<int64_t>(piece_bytes / sizeof(float)), even_part(count, n, 0));
  const int64_t pieces = pieces_of(even_part(count, n, 0), per_piece);
  const auto part_floats = static_cast<size_t>(std::min(per_piece, even_part(count, n, me)));
  std::vector<float> staging(2 * parts.size() * part_floats);
  const auto staged = [&](int64_t k, size_t part) {
    return staging.data() + (static_cast<size_t>(k % 2) * parts.size() + part) * part_floats;
  };
  const auto length = [&](int r, int64_t k) {
    return std::clamp<int64_t>(even_part(count, n, r) - k * per_piece, 0, per_piece);
  };
  Transfers transfers[2] = {{link_, data_channel_}, {link_, data_channel_}};
  const auto begin = [&](int64_t k) {
    size_t node = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].owner != me) {
        transfers[k % 2].recv(parts[i].owner, staged(k, i),
                              static_cast<size_t>(length(me, k)) * sizeof(float));
        continue;
      }
      const float* data = nodes[node++].data + k * per_piece;
      for (int j = 1; j < n; ++j) {
        const int to = (me + j) % n;
        transfers[k % 2].send(to, data + first_of(to), static_cast<size_t>(length(to, k)) * sizeof(float));
      }
      std::copy_n(data + first_of(me), length(me, k), staged(k, i));
    }
  };
  begin(0);
  for (int64_t k = 0; k < pieces; ++k) {
    if (k + 1 < pieces) begin(k + 1);
    transfers[k % 2].wait();
    for (const auto& step : tree.adds)
      add(staged(k, static_cast<size_t>(step.into)), staged(k, static_cast<size_t>(step.into)),
          staged(k, static_cast<size_t>(step.from)), length(me, k));
    std::copy_n(staged(k, 0), length(me, k), result + first_of(me) + k * per_piece);
  }
}

}  // namespace athanor::comm::network
