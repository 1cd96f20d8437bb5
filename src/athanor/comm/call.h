// A Call: the description of one collective or point-to-point message that a rank is about to make. Ranks compare their
// calls before data moves, so that a mismatch is an error and not a hang (law 8).
//
//   Call call{.collective = Collective::all_reduce, .dtype = Dtype::f32, .count = 1000, .name = "grads.bucket3"};
//   check_call(call, {.in = data, .out = data}, rank, group_size);   // Error for wrong arguments
//   call.text()                                         // all_reduce(f32[1000], "grads.bucket3")
//
// Thread rule: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
  share,
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
  // Where the buffer lies in memory that all ranks can address (shm/shared_regions.h), of share() where the memory lies
  // for the other ranks; 0: in no such memory. Not compared.
  uint64_t place = 0;

  // For messages; long names are truncated.
  std::string text() const;
};

// One rank's input of all_reduce_tree: the partial sum over the leaves [first, last), which must be a node of the fixed
// binary tree over all leaves (comm/tree.h makes them).
struct TreeNode {
  int64_t first = 0, last = 0;
  float* data = nullptr;
};

// The memory of a call on this rank, as Group's function has it.
struct Buffers {
  const void* in = nullptr;               // read; of a call in place the same as `out`
  void* out = nullptr;                    // written
  std::vector<int64_t> send_counts = {};  // of all_to_all_v, by rank
  std::vector<int64_t> recv_counts = {};
  std::vector<TreeNode> nodes = {};        // of all_reduce_tree, whose result is `out`
  std::shared_ptr<std::byte> memory = {};  // of share; null: none
};

// How many elements this rank reads from `in` and writes to `out`; 0 where the rank does not use the buffer.
struct BufferElements {
  int64_t in = 0, out = 0;
};
BufferElements elements_of(const Call& call, const Buffers& buffers, int rank, int group_size);

// The bytes of share() as a count. A size that does not fit becomes negative, which check_call refuses.
constexpr int64_t as_count(size_t size_bytes) {
  return static_cast<int64_t>(size_bytes);
}

bool can_sum(Dtype dtype);  // f32, f64, bf16, i64

// Error if the arguments of a call are wrong by themselves: count, dtype, root, counts by rank, null buffers.
void check_call(const Call& call, const Buffers& buffers, int rank, int group_size);

// What is wrong with all ranks' counts of all_to_all_v, or "": rank r sends sent[r * size + s] elements to rank s, and
// rank s expects received[s * size + r] from it.
std::string compare_counts(std::span<const int64_t> sent, std::span<const int64_t> received, int group_size);

}  // namespace athanor::comm
