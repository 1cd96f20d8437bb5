// Pushes as fewer bytes (bf16, int8; docs/compression.md has the formulas): a worker's codes with what they left out, and
// what a server reads them into. Both ends have the same plan, a PushCode.
//
//   CodedPush push(buckets, workers, arena, settings);
//   push.encode(bucket, data, /*decoded=*/true);           // data [bucket's total]: the sum of this worker's grains
//   push.send(bucket, world, [&](Work work) { ... });       // messages lie in `push` until the next encode()
//
//   CodedRows rows(buckets, server, arena, settings);
//   rows.receive(world, worker, bucket, into);              // into [row]: waits
//
// A message is a server's row of a bucket ("gradients B", u8), weight after weight: block codes of 256 elements each
// (compression/block_code.h) of what is compressed, f32 of everything else. Gaps between weights decode to 0 and no element
// to -0, so that messages add up to the same bits as sums of codes over ranks (compression/block_sum.h with `needed`).
// Error feedback is the worker's: x + residue is coded, residue = what the code left out, f32, kind `optimizer` of the
// memory plan. With `decoded` the data becomes what the servers will see. Errors: the group's; Error for a compression that
// has no block codes. Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "athanor/parallel/compression/block_code.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/compression/error_feedback.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor {

class PushCode {
 public:
  struct Piece {
    size_t slot;      // of the bucket
    FlatRange range;  // elements of the weight, never none
    int64_t at;       // where the range begins in the row
    bool is_coded;
    int64_t bytes;  // in the message
  };

  PushCode(const Buckets& buckets, const CompressionOptions& options);
  const BlockCode& blocks() const { return blocks_; }
  const std::vector<Piece>& row(size_t bucket, int server) const {
    return rows_[bucket][static_cast<size_t>(server)];
  }
  int64_t bytes(size_t bucket, int server) const;  // of the message

 private:
  const BlockCode& blocks_;
  std::vector<std::vector<std::vector<Piece>>> rows_;  // by bucket and server
};

class CodedPush {
 public:
  CodedPush(const Buckets& buckets, Group& workers, Arena& arena, const ServerSettings& settings);
  void encode(size_t bucket, float* data, bool decoded);
  void set_unit(double loss_scale) { feedback_.set_unit(loss_scale); }  // of the data of a step (f16)
  void forget() { feedback_.clear(); }                                  // its push was not finite
  void send(size_t bucket, Group& world, const std::function<void(Work)>& keep);
  std::vector<CompressionState> states() const;

 private:
  void encode_blocks(const PushCode::Piece& piece, size_t residue, float* x, std::byte* to, bool decoded);

  const Buckets& buckets_;
  Group& workers_;
  Arena& arena_;
  ServerRoles roles_;
  std::vector<const Weight*> coded_;             // each has a residue
  std::vector<std::vector<size_t>> residue_of_;  // by bucket and slot; of coded weights
  PushCode code_;
  ErrorFeedback feedback_;
  Tensor codes_;                 // u8: the messages of all buckets
  std::vector<int64_t> firsts_;  // of each bucket in it
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
