// The two ends of compressed pushes (compression/push_code.h): a worker's codes with what they left out, and what a
// server reads them into.
//
//   CodedPush push(buckets, workers, arena, settings);
//   push.encode(bucket, data, /*decoded=*/true);           // data [bucket's total]: the sum of this worker's grains
//   push.send(bucket, world, [&](Work work) { ... });       // messages lie in `push` until the next encode()
//
//   CodedRows rows(buckets, server, arena, settings);
//   rows.receive(world, worker, bucket, into);              // into [row]: waits
//
// Error feedback is the worker's: x + residue is coded, residue = what the code left out, f32, kind `optimizer` of the
// memory plan. With `decoded` the data becomes what the servers will see. Top-k says first how many elements of each piece
// follow ("counts B", i32), since a server's share of the largest is known to nobody. Errors: the group's. Thread rule: one
// thread.
#pragma once

#include <functional>

#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/compression/error_feedback.h"
#include "athanor/parallel/compression/push_code.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor {

class CodedPush {
 public:
  CodedPush(const Buckets& buckets, Group& workers, Arena& arena, const ServerSettings& settings);
  void encode(size_t bucket, float* data, bool decoded);
  void set_unit(double loss_scale) { feedback_.set_unit(loss_scale); }  // of the data of a step (f16)
  void forget() { feedback_.clear(); }                                  // its push was not finite
  void send(size_t bucket, Group& world, const std::function<void(Work)>& keep);
  std::vector<CompressionState> states() const;

 private:
  struct Message {
    int64_t first = 0, bytes = 0;  // in codes_
    std::vector<int32_t> counts = {};
  };
  float* values(size_t bucket, size_t slot, float* data) const;
  void encode_blocks(const PushCode::Piece& piece, size_t residue, float* x, std::byte* to, bool decoded);
  void choose(size_t bucket, float* data, bool decoded);
  void write_chosen(const PushCode::Piece& piece, Message& message, std::byte* to) const;

  const Buckets& buckets_;
  Group& workers_;
  Arena& arena_;
  ServerRoles roles_;
  PushCode code_;
  std::vector<std::vector<size_t>> residue_of_;  // by bucket and slot; of coded weights
  ErrorFeedback feedback_;
  Tensor codes_;                                // u8: the messages of all buckets
  std::vector<int64_t> firsts_;                 // of each bucket in it
  std::vector<std::vector<Message>> messages_;  // by bucket and server
  Tensor order_, chosen_;  // i32, top-k: to choose with; indices, then values of a bucket
  std::vector<int64_t> chosen_at_, chosen_count_;  // by slot of the bucket that is encoded
};

class CodedRows {
 public:
  CodedRows(const Buckets& buckets, int server, Arena& arena, const ServerSettings& settings);
  void receive(Group& world, int worker, size_t bucket, const Tensor& into);

 private:
  int server_;
  PushCode code_;
  Tensor message_;  // u8: the longest
};

}  // namespace athanor
