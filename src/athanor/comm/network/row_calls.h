// Collectives in terms of rows that move between ranks: the part that transports without shared memory have in common.
// A group inherits it and implements how rows move (network_group.h, comm/nccl/nccl_group.h).
//
//   run_rows(call, buffers)     // all_reduce: reduce_rows (each slice to its owner), then gather_rows (the sums)
//
// Slice r of the elements belongs to rank r, as does row r of [size, count].
// Thread rule: one call at a time, on which all ranks have agreed (law 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "athanor/comm/call.h"

namespace athanor::comm::network {

class RowCalls {
 public:
  virtual ~RowCalls() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

 protected:
  // Consecutive elements of one rank.
  template <typename Byte>
  struct Row {
    Byte* data;
    int64_t count;
  };
  using InRow = Row<const std::byte>;
  using OutRow = Row<std::byte>;

  // Reduce-scatter. rows[r]: this rank's part of the row that rank r owns. out: the sum of the own row, in rank order.
  virtual void reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) = 0;
  // All-gather. rows[r]: where rank r's row goes; the own row is sent to all other ranks.
  virtual void gather_rows(std::span<const OutRow> rows, size_t element) = 0;
  // All-to-all. in[r] goes to rank r; out[r] receives the row from rank r.
  virtual void exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) = 0;
  // Copies within this rank's memory; nothing if `to` is `from`.
  virtual void copy_own(void* to, const void* from, size_t size_bytes) = 0;

  // A collective of rows, as in Group: neither a barrier nor all_reduce_tree.
  void run_rows(const Call& call, const Buffers& buffers);
  void gather_slices(void* data, int64_t count, Dtype dtype);  // each rank its own

 private:
  // For every rank r slice r of the `count` elements at `data`.
  template <typename Byte>
  std::vector<Row<Byte>> slices(Byte* data, int64_t count, size_t element) const;
  template <typename Byte>
  std::vector<Row<Byte>> equal_rows(Byte* data, int64_t count, size_t element) const;
  template <typename Byte>
  static std::vector<Row<Byte>> rows_of(Byte* data, const std::vector<int64_t>& counts, size_t element);
  // Row `only` has `count` elements, all others none.
  template <typename Byte>
  std::vector<Row<Byte>> one_row(Byte* data, int64_t count, int only) const;
};

}  // namespace athanor::comm::network
