// Compressed pushes of gradients to parameter servers (bf16, int8; docs/compression.md has the formulas): a worker's
// encoder with error feedback, and a server's decoder. Both ends derive the same message layout, a PushCode.
//
//   CodedPush push(buckets, workers, arena, settings);
//   push.encode(bucket, data, /*decoded=*/true);           // data [bucket's total]: this worker's gradients
//   push.send(bucket, world, [&](Work work) { ... });       // the messages lie in `push` until the next encode()
//
//   CodedRows rows(buckets, server, arena, settings);
//   rows.receive(world, worker, bucket, into);              // into [row]; blocks
//
// A message is a server's row of a bucket ("gradients B", u8), weight after weight: blocks of 256 elements
// (compression/block_code.h) of compressed weights, f32 of all others. Padding between weights decodes to 0 and no
// element to -0, so messages add up to the same bits as compressed sums over ranks (compression/block_sum.h with
// `needed`). Error feedback is the worker's: x + residual is encoded, residual = x + residual - decoded, f32, category
// `optimizer` of the memory plan. With `decoded` the data become what the servers will decode. Errors: the group's;
// Error for a compression method without block codes. Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "athanor/parallel/compression/block_code.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/compression/error_feedback.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor::parallel::parameter_server {

class PushCode {
 public:
  struct Piece {
    size_t slot;      // index of the weight in its bucket
    FlatRange range;  // elements of the weight, never empty
    int64_t at;       // where the range begins in the row
    bool is_coded;
    int64_t bytes;  // in the message
  };

  PushCode(const Buckets& buckets, const CompressionOptions& options);
  const BlockCode& blocks() const { return blocks_; }
  const std::vector<Piece>& row(size_t bucket, int server) const {
    return rows_[bucket][static_cast<size_t>(server)];
  }
  int64_t bytes(size_t bucket, int server) const;  // length of the message

 private:
  const BlockCode& blocks_;
  std::vector<std::vector<std::vector<Piece>>> rows_;  // by bucket and server
};

class CodedPush {
 public:
  CodedPush(const Buckets& buckets, Group& workers, Arena& arena, const ServerSettings& settings);
  void encode(size_t bucket, float* data, bool decoded);
  void set_unit(double loss_scale) { feedback_.set_unit(loss_scale); }  // the factor in the data (f16)
  void forget() { feedback_.clear(); }  // after a push that was not finite: clears the residuals
  void send(size_t bucket, Group& world, const std::function<void(Work)>& keep);
  std::vector<ExchangeState> states() const;

 private:
  void encode_blocks(const PushCode::Piece& piece, size_t residual, float* x, std::byte* to, bool decoded);

  const Buckets& buckets_;
  Group& workers_;
  Arena& arena_;
  ServerRoles roles_;
  std::vector<const Weight*> coded_;              // compressed weights, each with a residual
  std::vector<std::vector<size_t>> residual_of_;  // by bucket and slot: index of the weight's residual
  PushCode code_;
  ErrorFeedback feedback_;
  Tensor codes_;                 // u8: the messages of all buckets
  std::vector<int64_t> firsts_;  // offset of each bucket in codes_
};

class CodedRows {
 public:
  CodedRows(const Buckets& buckets, int server, Arena& arena, const ServerSettings& settings);
  void receive(Group& world, int worker, size_t bucket, const Tensor& into);

 private:
  int server_;
  PushCode code_;
  Tensor message_;  // u8: receive buffer, of the longest message
};

}  // namespace athanor::parallel::parameter_server
