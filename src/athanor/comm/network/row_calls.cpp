#include "athanor/comm/network/row_calls.h"

#include "athanor/comm/traffic.h"

namespace athanor::comm::network {

namespace {

const std::byte* as_bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* as_bytes(void* data) {
  return static_cast<std::byte*>(data);
}

}  // namespace

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

void RowCalls::run_all_reduce(void* data, int64_t count, Dtype dtype) {
  reduce_rows(slices(as_bytes(static_cast<const void*>(data)), count, size_of(dtype)),
              slices(as_bytes(data), count, size_of(dtype))[static_cast<size_t>(rank())].data, dtype);
  gather_slices(data, count, dtype);
}

void RowCalls::gather_slices(void* data, int64_t count, Dtype dtype) {
  gather_rows(slices(as_bytes(data), count, size_of(dtype)), size_of(dtype));
}

void RowCalls::run_all_gather(const void* in, void* out, int64_t count, Dtype dtype) {
  const auto rows = equal_rows(as_bytes(out), count, size_of(dtype));
  copy_own(rows[static_cast<size_t>(rank())].data, in, static_cast<size_t>(count) * size_of(dtype));
  gather_rows(rows, size_of(dtype));
}

void RowCalls::run_reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype) {
  reduce_rows(equal_rows(as_bytes(in), count, size_of(dtype)), as_bytes(out), dtype);
}

void RowCalls::run_all_to_all(const void* in, void* out, int64_t count, Dtype dtype) {
  exchange_rows(equal_rows(as_bytes(in), count, size_of(dtype)),
                equal_rows(as_bytes(out), count, size_of(dtype)), size_of(dtype));
}

void RowCalls::run_all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                                std::span<const int64_t> recv_counts, Dtype dtype) {
  const auto rows = [&](auto* data, std::span<const int64_t> counts) {
    std::vector<Row<std::remove_pointer_t<decltype(data)>>> result;
    for (const int64_t count : counts) {
      result.push_back({data, count});
      data += static_cast<size_t>(count) * size_of(dtype);
    }
    return result;
  };
  exchange_rows(rows(as_bytes(in), send_counts), rows(as_bytes(out), recv_counts), size_of(dtype));
}

void RowCalls::run_broadcast(void* data, int64_t count, Dtype dtype, int root) {
  // The root sends a row to every rank; every rank receives from the root only.
  const std::vector<InRow> in(static_cast<size_t>(size()), InRow{as_bytes(data), rank() == root ? count : 0});
  exchange_rows(in, one_row(as_bytes(data), count, root), size_of(dtype));
}

void RowCalls::run_reduce(const void* in, void* out, int64_t count, Dtype dtype, int root) {
  reduce_rows(one_row(as_bytes(in), count, root), as_bytes(out), dtype);
}

void RowCalls::run_gather(const void* in, void* out, int64_t count, Dtype dtype, int root) {
  exchange_rows(one_row(as_bytes(in), count, root),
                equal_rows(as_bytes(out), rank() == root ? count : 0, size_of(dtype)), size_of(dtype));
}

void RowCalls::run_scatter(const void* in, void* out, int64_t count, Dtype dtype, int root) {
  exchange_rows(equal_rows(as_bytes(in), rank() == root ? count : 0, size_of(dtype)),
                one_row(as_bytes(out), count, root), size_of(dtype));
}

}  // namespace athanor::comm::network
