#include "athanor/comm/network/row_calls.h"

#include "athanor/base/check.h"
#include "athanor/comm/traffic.h"

namespace athanor::comm::network {

template <typename Byte>
auto RowCalls::slices(Byte* data, int64_t count, size_t element) const -> std::vector<Row<Byte>> {
  std::vector<Row<Byte>> rows;
  int64_t first = 0;
  for (int r = 0; r < size(); ++r) {
    const int64_t part = even_part(count, size(), r);
    rows.push_back({data + static_cast<size_t>(first) * element, part});
    first += part;
  }
  return rows;
}

template <typename Byte>
auto RowCalls::equal_rows(Byte* data, int64_t count, size_t element) const -> std::vector<Row<Byte>> {
  return slices(data, count * size(), element);
}

template <typename Byte>
auto RowCalls::one_row(Byte* data, int64_t count, int only) const -> std::vector<Row<Byte>> {
  std::vector<Row<Byte>> rows(static_cast<size_t>(size()), Row<Byte>{data, 0});
  rows[static_cast<size_t>(only)].count = count;
  return rows;
}

template <typename Byte>
auto RowCalls::rows_of(Byte* data, const std::vector<int64_t>& counts, size_t element)
    -> std::vector<Row<Byte>> {
  std::vector<Row<Byte>> rows;
  for (const int64_t count : counts) {
    rows.push_back({data, count});
    data += static_cast<size_t>(count) * element;
  }
  return rows;
}

void RowCalls::gather_slices(void* data, int64_t count, Dtype dtype) {
  gather_rows(slices(static_cast<std::byte*>(data), count, size_of(dtype)), size_of(dtype));
}

void RowCalls::run_rows(const Call& call, const Buffers& buffers) {
  const auto* in = static_cast<const std::byte*>(buffers.in);
  auto* out = static_cast<std::byte*>(buffers.out);
  const auto me = static_cast<size_t>(rank());
  const int64_t count = call.count;
  const size_t element = size_of(call.dtype);
  const bool is_root = rank() == call.root;
  switch (call.collective) {
    case Collective::all_reduce:
      reduce_rows(slices(in, count, element), slices(out, count, element)[me].data, call.dtype);
      return gather_slices(out, count, call.dtype);
    case Collective::all_gather: {
      const auto rows = equal_rows(out, count, element);
      copy_own(rows[me].data, in, static_cast<size_t>(count) * element);
      return gather_rows(rows, element);
    }
    case Collective::reduce_scatter:
      return reduce_rows(equal_rows(in, count, element), out, call.dtype);
    case Collective::all_to_all:
      return exchange_rows(equal_rows(in, count, element), equal_rows(out, count, element), element);
    case Collective::all_to_all_v:
      return exchange_rows(rows_of(in, buffers.send_counts, element),
                           rows_of(out, buffers.recv_counts, element), element);
    case Collective::broadcast:  // the root sends a row to every rank; every rank receives from the root only
      return exchange_rows(std::vector(static_cast<size_t>(size()), InRow{in, is_root ? count : 0}),
                           one_row(out, count, call.root), element);
    case Collective::reduce:
      return reduce_rows(one_row(in, count, call.root), out, call.dtype);
    case Collective::gather:
      return exchange_rows(one_row(in, count, call.root), equal_rows(out, is_root ? count : 0, element),
                           element);
    case Collective::scatter:
      return exchange_rows(equal_rows(in, is_root ? count : 0, element), one_row(out, count, call.root),
                           element);
    default:
      fail("{} has no rows", call.text());
  }
}

}  // namespace athanor::comm::network
