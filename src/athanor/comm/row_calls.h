// The collectives as movements of rows between ranks: what they have in common wherever the data lie. A group that has
// no memory in common with its ranks inherits it (comm/wire_group.h, comm/nccl_group.h) and says how rows are moved.
//
//   void run_all_reduce(data, count, dtype):  reduce_rows(slices of data) to their owners, gather_rows(the sums)
//
// Slice r of the elements is rank r's; row r of [size, count] is rank r's, too.
// Thread rule: one call at a time, which all ranks have agreed on (law 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "athanor/tensor/dtype.h"

namespace athanor {

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

  // rows[r]: this rank's part of what rank r owns; out: the sum of the own row over all ranks, in their order.
  virtual void reduce_rows(std::span<const InRow> rows, std::byte* out, Dtype dtype) = 0;
  // rows[r]: where rank r's row goes; the own row is what the others get.
  virtual void gather_rows(std::span<const OutRow> rows, size_t element) = 0;
  // in[r] goes to rank r, which has room for it in its out.
  virtual void exchange_rows(std::span<const InRow> in, std::span<const OutRow> out, size_t element) = 0;
  // From memory of this rank to other; nothing where they are the same.
  virtual void copy_own(void* to, const void* from, size_t size_bytes) = 0;

  // The arguments are those of Group, which have been checked.
  void run_all_reduce(void* data, int64_t count, Dtype dtype);
  void gather_slices(void* data, int64_t count, Dtype dtype);  // each rank its own
  void run_all_gather(const void* in, void* out, int64_t count, Dtype dtype);
  void run_reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype);
  void run_all_to_all(const void* in, void* out, int64_t count, Dtype dtype);
  void run_all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                        std::span<const int64_t> recv_counts, Dtype dtype);
  void run_broadcast(void* data, int64_t count, Dtype dtype, int root);
  void run_reduce(const void* in, void* out, int64_t count, Dtype dtype, int root);
  void run_gather(const void* in, void* out, int64_t count, Dtype dtype, int root);
  void run_scatter(const void* in, void* out, int64_t count, Dtype dtype, int root);

 private:
  // Slice r of `count` elements at `data`, for every rank.
  template <typename Byte>
  std::vector<Row<Byte>> slices(Byte* data, int64_t count, size_t element) const;
  template <typename Byte>
  std::vector<Row<Byte>> equal_rows(Byte* data, int64_t count, size_t element) const;
  // Row `only` [count] and no other.
  template <typename Byte>
  std::vector<Row<Byte>> one_row(Byte* data, int64_t count, int only) const;
};

}  // namespace athanor
