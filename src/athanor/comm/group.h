// A Group: the ranks that talk to each other, and the collectives they make together.
//
//   Work work = group.all_reduce(bucket, count, Dtype::f32, "grads.bucket3");   // starts; returns at once
//   ...                                                                       // backward goes on
//   work.wait();                                                              // throws what went wrong
//
// Every member calls the same collectives in the same order. Each call carries (group, sequence number,
// operation, element count, dtype, name); a member that calls another one is named to all within a second
// (law 8), a member that died or left makes the others throw PeerLost, one that is late is reported and at
// the group's timeout makes the others throw Timeout. After any of these the group is broken: all later calls
// throw. Arguments that are wrong by themselves (negative count, null buffer, dtype without sum) throw Error
// at the call, before anything is sent. Counts may be zero.
//
// Sums are exact functions of their inputs: f32 (also for bf16 inputs, rounded once at the end), added in the
// order of the ranks 0 ... n-1 whoever computes them, so the result has the same bits on every rank and in
// every run. A group of one is the identity.
// Buffers of allocate_shared() are reduced where they lie, if those of all ranks are such; others are copied
// through small slots. The results have the same bits.
// Memory: a buffer given to a collective must stay valid and untouched until wait() returns. Buffers of one
// call do not overlap, except that the `in` of all_gather and gather may be its own row of `out`, the `out` of
// reduce_scatter and scatter its own row of `in`, reduce's `out` its `in`, and all_reduce_tree's `result` one of
// the nodes. What is said to be on the root only is not looked at elsewhere and may be null.
// Thread rule: collectives of one Group are started by one thread, and so are messages; wait() may be called by
// it or another, and may carry the collective out in the thread that waits. abort() and traffic() may be called
// by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/traffic.h"
#include "athanor/tensor/dtype.h"

namespace athanor {

// The handle of a started collective. Dropping it without wait() waits in the destructor (errors are lost).
class Work {
 public:
  class Impl {
   public:
    virtual ~Impl() = default;
    virtual void wait() = 0;
    virtual bool done() const = 0;
  };
  Work() = default;  // already done
  explicit Work(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void wait() {
    if (impl_) std::exchange(impl_, nullptr)->wait();
  }
  bool done() const { return !impl_ || impl_->done(); }

 private:
  std::shared_ptr<Impl> impl_;
};

// A partial sum that a rank brings to all_reduce_tree: the sum over the leaves [first, last) of the fixed
// binary tree over all leaves, which must be a node of that tree (comm/tree.h makes them).
struct TreeNode {
  int64_t first = 0, last = 0;
  float* data = nullptr;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  // In place: every rank ends with the sum over ranks. dtype f32, f64, bf16 or i64.
  virtual Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) = 0;
  // The sum over all leaves of the binary tree of comm/tree.h, formed in the order of that tree whoever holds
  // which nodes. `nodes` are this rank's, each of `count` floats; the nodes of all ranks cover the leaves
  // [0, num_leaves) exactly. `result` [count] may be one of the node buffers.
  virtual Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                               const std::string& name) = 0;
  // in [count] per rank -> out [size, count], in rank order.
  virtual Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) = 0;
  // in [size, count] -> out [count]: the sum over ranks of row rank().
  virtual Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                              const std::string& name) = 0;
  // in [size, count] -> out [size, count]: row r of out is row rank() of rank r's in.
  virtual Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) = 0;
  // Rows of any length, contiguous in the order of the ranks: in [sum of send_counts] has send_counts[r] elements
  // for rank r, out [sum of recv_counts] gets recv_counts[r] from it.
  virtual Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                            std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) = 0;
  virtual Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) = 0;
  // in [count] per rank -> on the root out [count], the sum over ranks.
  virtual Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                      const std::string& name) = 0;
  // in [count] per rank -> on the root out [size, count], in rank order.
  virtual Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
                      const std::string& name) = 0;
  // On the root in [size, count] -> out [count] per rank: row rank().
  virtual Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) = 0;
  virtual void barrier(const std::string& name) = 0;

  // Messages between two ranks, beside the collectives and in no order with them. The k-th send of a rank to another
  // meets that one's k-th recv from it; if count, dtype or name differ, the group breaks. A send is done when its
  // data may be used again, which may be only when the other rank has it: start both directions, then wait. They
  // go on while this rank computes or waits for anything else. A rank may send to itself.
  virtual Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) = 0;
  virtual Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) = 0;

  // What this rank has put on the wire since the group was made; complete for all that has been waited for.
  virtual Traffic traffic() const = 0;

  // Zeroed memory that every rank of the group can address; collectives on it need no copies. Every rank asks
  // for the same number of bytes, gets as many of its own, and waits for the others. Freed with the last
  // pointer, which may outlive the group. IoError where the system has no more.
  virtual std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) = 0;

  // Throws what the next call would throw if the group is broken, or a member has died: for who waits for something
  // that the group does not carry (comm/nccl.h). Any thread.
  virtual void throw_if_broken() = 0;

  // Makes every pending and later call of this group, on every rank that can be reached, throw Recoverable
  // with this reason. Called by a rank that fails, so that the others do not wait for it.
  virtual void abort(const std::string& reason) = 0;
};

// The identity: a group of one.
std::unique_ptr<Group> make_single_group(std::string name = "world");

}  // namespace athanor
