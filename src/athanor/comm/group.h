// A Group: ranks that communicate, and their collectives and point-to-point messages (an MPI communicator, a
// torch.distributed process group).
//
//   Work work = group.all_reduce(bucket, count, Dtype::f32, "grads.bucket3");   // starts; returns at once
//   ...                                                                       // backward goes on
//   work.wait();                                                              // throws what went wrong
//
// Every member makes the same collectives in the same order. Each call carries group, sequence number, operation,
// element count, dtype and name. Failures (law 8):
//   a member makes another call      CallMismatch, an Error, on all members within a second, naming it
//   a member dies or leaves          PeerLost on all others
//   a member is late                 reported; Timeout at the group's timeout
// After any of these the group is broken and all later calls throw. Arguments that are wrong by themselves (negative
// count, null buffer, dtype without sum) throw Error at the call, before anything is sent. Counts may be zero.
//
// Sums are exact functions of their inputs: in f32 (also for bf16 inputs, rounded once at the end), added in the order
// of the ranks 0 ... n-1. So the result has the same bits on every rank and in every run. A group of one is the
// identity.
//
// Memory: a buffer given to a collective must stay valid and untouched until wait() returns; after wait(queue) the queue
// may use it (comm/work.h). A group owns none. If all ranks' buffers lie in memory that they have registered by share(),
// they are reduced in place, else copied through small slots; the bits are the same. Buffers of one call do not overlap,
// with these exceptions: `in` of all_gather and gather may be its own row of `out`, `out` of reduce_scatter and scatter
// its own row of `in`, reduce's `out` its `in`, all_reduce_tree's `result` one of the nodes.
// Buffers that only the root uses may be null elsewhere.
// Thread rule: one thread starts the collectives of a Group, one its messages. Any thread may call wait(), which may
// run the collective itself, abort() and traffic().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/traffic.h"
#include "athanor/comm/work.h"
#include "athanor/tensor/dtype.h"

namespace athanor::comm {

class Group {
 public:
  Group() = default;
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  // In place: every rank ends with the sum over ranks. dtype f32, f64, bf16 or i64.
  NewWork all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name);
  // The sum over all leaves, added in the order of the fixed binary tree of comm/tree.h; which rank holds which nodes
  // does not matter. `nodes` are this rank's, each of `count` floats; the nodes of all ranks cover the leaves
  // [0, num_leaves) exactly. `result` [count] may be one of the node buffers.
  NewWork all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                          const std::string& name);
  // in [count] per rank -> out [size, count], in rank order.
  NewWork all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name);
  // in [size, count] -> out [count]: the sum over ranks of row rank().
  NewWork reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name);
  // in [size, count] -> out [size, count]: row r of out is row rank() of rank r's in.
  NewWork all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name);
  // Rows of any length, contiguous in rank order: in [sum of send_counts] has send_counts[r] elements for rank r, out
  // [sum of recv_counts] gets recv_counts[r] elements from rank r.
  NewWork all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                       std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name);
  NewWork broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name);
  // in [count] per rank -> on the root out [count], the sum over ranks.
  NewWork reduce(const void* in, void* out, int64_t count, Dtype dtype, int root, const std::string& name);
  // in [count] per rank -> on the root out [size, count], in rank order.
  NewWork gather(const void* in, void* out, int64_t count, Dtype dtype, int root, const std::string& name);
  // On the root in [size, count] -> out [count] per rank: row rank().
  NewWork scatter(const void* in, void* out, int64_t count, Dtype dtype, int root, const std::string& name);
  void barrier(const std::string& name);

  // Point-to-point messages, independent of the collectives. The k-th send from rank a to rank b matches b's k-th recv
  // from a; if count, dtype or name differ, the group breaks. A send is done when its buffer may be used again, perhaps
  // only when the receiver has the data: to exchange, start both directions, then wait. Messages proceed while this
  // rank computes or waits for anything else. A rank may send to itself.
  NewWork send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name);
  NewWork recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name);

  // Registers memory of this rank with the others, who address it from now on: collectives on it need no copies. It is
  // memory of World::allocate(); other memory, and null, is taken and not shared. Collective: the same number of bytes
  // on every rank. Registration ends with the memory's last pointer, or with the group. IoError if the system has no
  // more addresses.
  void share(std::shared_ptr<std::byte> memory, size_t size_bytes, const std::string& name);

  // What all functions above become: a call whose arguments are right, with its buffers. A transport implements this
  // one; a group in front of another passes it on.
  virtual Work start(Call call, Buffers buffers, Start how) = 0;

  // What this rank has sent since the group was made; complete for calls whose wait() has returned.
  virtual Traffic traffic() const = 0;

  // Throws what the next call would throw if the group is broken or a member has died. For callers that wait for
  // something outside the group (comm/nccl/nccl.h). Any thread.
  virtual void throw_if_broken() = 0;

  // Makes every pending and later call of this group, on every reachable rank, throw Recoverable with this reason. For
  // a rank that fails, so that the others do not wait for it.
  virtual void abort(const std::string& reason) = 0;

 private:
  NewWork checked(Call call, Buffers buffers);
};

// The identity: a group of one.
std::unique_ptr<Group> make_single_group(std::string name = "world");

}  // namespace athanor::comm
