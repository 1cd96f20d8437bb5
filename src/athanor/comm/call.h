// What a rank says it is about to do: one call of a collective, compared between the ranks (law 8).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "athanor/tensor/dtype.h"

namespace athanor {

enum class Collective : uint8_t {
  barrier,
  all_reduce,
  all_reduce_tree,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  allocate_shared,
  reduce,
  gather,
  scatter,
  all_to_all_v,
  send,
  recv
};
constexpr int kNumCollectives = static_cast<int>(Collective::recv) + 1;

const char* name_of(Collective collective);

struct Call {
  Collective collective = Collective::barrier;
  Dtype dtype = Dtype::u8;
  int32_t root = -1;  // of broadcast, reduce, gather and scatter; of send and recv the other rank
  int64_t count = 0;  // elements, as the caller gave it; 0 of all_to_all_v, whose ranks compare theirs later
  int64_t num_leaves = 0;  // of all_reduce_tree
  std::string name;
  // Where the buffer that the others read lies in memory they can address; 0: nowhere. Not compared.
  uint64_t place = 0;

  // all_reduce(f32[1000], "grads.bucket3"); long names are cut.
  std::string text() const;
};

// The bytes of a shared allocation as a count; what does not fit is negative, and refused by check_call.
constexpr int64_t as_count(size_t size_bytes) {
  return static_cast<int64_t>(size_bytes);
}

bool can_sum(Dtype dtype);  // f32, f64, bf16, i64

// Error if the arguments of a call are wrong by themselves; `buffers` says whether none of its pointers is
// null.
void check_call(const Call& call, int group_size, bool buffers);

// The same of the counts that one rank gives to all_to_all_v, for the buffer that they cut into rows; returns their sum.
int64_t check_counts(const Call& call, std::span<const int64_t> counts, int group_size, bool buffer);

// What is wrong with the counts of all ranks, or "": rank r sends sent[r * size + s] elements to rank s, which expects
// received[s * size + r].
std::string compare_counts(std::span<const int64_t> sent, std::span<const int64_t> received, int group_size);

}  // namespace athanor
