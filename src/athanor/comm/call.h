// A Call: the description of one collective or point-to-point message that a rank is about to make. Ranks compare their
// calls before data moves, so that a mismatch is an error and not a hang (law 8).
//
//   Call call{.collective = Collective::all_reduce, .dtype = Dtype::f32, .count = 1000, .name = "grads.bucket3"};
//   check_call(call, group_size, /*buffers=*/true);     // Error for wrong arguments
//   call.text()                                         // all_reduce(f32[1000], "grads.bucket3")
//
// Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "athanor/tensor/dtype.h"

namespace athanor::comm {

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
  int32_t root = -1;       // for broadcast, reduce, gather and scatter; for send and recv the other rank
  int64_t count = 0;       // elements, as in Group's call; 0 for all_to_all_v, which compares counts later
  int64_t num_leaves = 0;  // for all_reduce_tree
  std::string name;
  // Where the buffer lies in memory that all ranks can address (shm/shared_regions.h); 0: in no such memory. Not
  // compared.
  uint64_t place = 0;

  // For messages; long names are truncated.
  std::string text() const;
};

// The bytes of a shared allocation as a count. A size that does not fit becomes negative, which check_call refuses.
constexpr int64_t as_count(size_t size_bytes) {
  return static_cast<int64_t>(size_bytes);
}

bool can_sum(Dtype dtype);  // f32, f64, bf16, i64

// Error if the arguments of a call are wrong by themselves. `buffers`: none of its pointers is null.
void check_call(const Call& call, int group_size, bool buffers);

// The same for one rank's counts of all_to_all_v, which divide a buffer into rows. Returns their sum.
int64_t check_counts(const Call& call, std::span<const int64_t> counts, int group_size, bool buffer);

// What is wrong with all ranks' counts of all_to_all_v, or "": rank r sends sent[r * size + s] elements to rank s, and
// rank s expects received[s * size + r] from it.
std::string compare_counts(std::span<const int64_t> sent, std::span<const int64_t> received, int group_size);

}  // namespace athanor::comm
