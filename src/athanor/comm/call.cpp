#include "athanor/comm/call.h"

#include <numeric>

#include "athanor/base/check.h"

namespace athanor::comm {

namespace {
constexpr int64_t kMaxBytes = int64_t{1} << 50;  // count * size * ranks stays far from overflow

bool goes_to_root(Collective collective) {
  return collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::send;
}

bool has_root(Collective collective) {
  return goes_to_root(collective) || collective == Collective::broadcast ||
         collective == Collective::scatter || collective == Collective::recv;
}

int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// One rank's counts of all_to_all_v, which divide a buffer into rows.
void check_counts(const Call& call, std::span<const int64_t> counts, int group_size, bool buffer) {
  const char* what = name_of(call.collective);
  check(counts.size() == static_cast<size_t>(group_size),
        "{} \"{}\": {} counts, expected one for each of {} ranks", what, call.name, counts.size(),
        group_size);
  const auto element = static_cast<int64_t>(size_of(call.dtype));
  int64_t sum = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    check(counts[r] >= 0, "{} \"{}\": count {} for rank {}, expected 0 or more", what, call.name, counts[r],
          r);
    check(counts[r] <= kMaxBytes / element - sum, "{} \"{}\": {} elements for rank {} are too many", what,
          call.name, counts[r], r);
    sum += counts[r];
  }
  check(buffer || sum == 0, "{} \"{}\": a buffer of {} elements is null", what, call.name, sum);
}
}  // namespace

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::barrier:
      return "barrier";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_reduce_tree:
      return "all_reduce_tree";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::share:
      return "share";
    case Collective::reduce:
      return "reduce";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all_v:
      return "all_to_all_v";
    case Collective::send:
      return "send";
    case Collective::recv:
      return "recv";
  }
  return "unknown collective";
}

std::string Call::text() const {
  const std::string quoted = "\"" + (name.size() > 100 ? name.substr(0, 100) + "..." : name) + "\"";
  if (collective == Collective::barrier) return fmt::format("barrier({})", quoted);
  if (collective == Collective::all_to_all_v)
    return fmt::format("{}({} rows, {})", name_of(collective), athanor::name_of(dtype), quoted);
  std::string extra;
  if (root >= 0) extra = fmt::format(" {} {}", goes_to_root(collective) ? "to" : "from", root);
  if (num_leaves > 0) extra = fmt::format(" over {} leaves", num_leaves);
  return fmt::format("{}({}[{}]{}, {})", name_of(collective), athanor::name_of(dtype), count, extra, quoted);
}

bool can_sum(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::bf16 || dtype == Dtype::i64;
}

BufferElements elements_of(const Call& call, const Buffers& buffers, int rank, int group_size) {
  const int64_t row = call.count, rows = call.count * group_size;
  const bool is_root = rank == call.root;
  switch (call.collective) {
    case Collective::barrier:
    case Collective::share:
      return {};
    case Collective::all_reduce:
    case Collective::broadcast:
      return {row, row};
    case Collective::all_reduce_tree:
    case Collective::recv:
      return {0, row};
    case Collective::all_gather:
      return {row, rows};
    case Collective::reduce_scatter:
      return {rows, row};
    case Collective::all_to_all:
      return {rows, rows};
    case Collective::all_to_all_v:
      return {sum_of(buffers.send_counts), sum_of(buffers.recv_counts)};
    case Collective::reduce:
      return {row, is_root ? row : 0};
    case Collective::gather:
      return {row, is_root ? rows : 0};
    case Collective::scatter:
      return {is_root ? rows : 0, row};
    case Collective::send:
      return {row, 0};
  }
  return {};
}

void check_call(const Call& call, const Buffers& buffers, int rank, int group_size) {
  const char* what = name_of(call.collective);
  check(call.count >= 0, "{} \"{}\": count {}, expected 0 or more", what, call.name, call.count);
  const size_t element = size_of(call.dtype);
  check(element > 0, "{} \"{}\": no such dtype ({})", what, call.name, static_cast<int>(call.dtype));
  check(call.count <= kMaxBytes / static_cast<int64_t>(element) / group_size,
        "{} \"{}\": {} elements are too many", what, call.name, call.count);
  if (call.collective == Collective::all_to_all_v) {
    check_counts(call, buffers.send_counts, group_size, buffers.in != nullptr);
    check_counts(call, buffers.recv_counts, group_size, buffers.out != nullptr);
  }
  const BufferElements elements = elements_of(call, buffers, rank, group_size);
  bool whole = (elements.in == 0 || buffers.in != nullptr) && (elements.out == 0 || buffers.out != nullptr);
  for (const TreeNode& node : buffers.nodes) whole = whole && (call.count == 0 || node.data != nullptr);
  check(whole, "{} \"{}\": a buffer of {} elements is null", what, call.name, call.count);
  if (call.collective == Collective::all_reduce || call.collective == Collective::reduce_scatter ||
      call.collective == Collective::reduce)
    check(can_sum(call.dtype), "{} \"{}\": got {}, expected f32, f64, bf16 or i64", what, call.name,
          athanor::name_of(call.dtype));
  if (has_root(call.collective))
    check(0 <= call.root && call.root < group_size, "{} \"{}\": {} {}, expected a rank of 0 ... {}", what,
          call.name,
          call.collective == Collective::send || call.collective == Collective::recv ? "rank" : "root",
          call.root, group_size - 1);
  if (call.collective == Collective::all_reduce_tree)
    check(call.num_leaves >= 1, "{} \"{}\": {} leaves, expected at least 1", what, call.name,
          call.num_leaves);
}

std::string compare_counts(std::span<const int64_t> sent, std::span<const int64_t> received, int group_size) {
  const auto n = static_cast<size_t>(group_size);
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to)
      if (sent[from * n + to] != received[to * n + from])
        return fmt::format("rank {} has {} elements for rank {}, which expects {}", from, sent[from * n + to],
                           to, received[to * n + from]);
  return "";
}

}  // namespace athanor::comm
