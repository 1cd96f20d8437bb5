// Gradients that are summed over the ranks as fewer bytes: what replicated_gradients does with a complete bucket
// where compression.method says so.
//
//   CompressedGradients compressed(buckets, group, arena, options);
//   compressed.begin_step(update);               // in the warm-up it stays out of the way
//   if (compressed.active()) compressed.start(bucket, whole);
//   compressed.finish(clock);
//
// Compressed are matrices whose gradient is complete within the data-parallel ranks: vectors, what tensor parallelism
// adds up afterwards (Shard::partial), and matrices that would not become smaller are sent as f32. A stack of experts'
// matrices [E,R,C] has factors for each of them (PowerSGD), so ranks that have some of the experts (axis ep) have theirs;
// and what tensor parallelism leaves a rank of a matrix is a matrix of its own: k, blocks and factors are those of it.
// Each use of a shared parameter is compressed apart. With onebit_adam nothing is sent here at all: its optimizer does
// (onebit_adam.h), and grad(param) is the rank's own.
// Hybrid sharding (bf16, int8): a set of ranks has summed a gradient exactly, and the sets exchange codes of their sums.
// `group` are the ranks with this one's place in all sets, and each rank of a set codes its share: block codes do not see
// where a matrix is cut (shard_layout.h).
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/compression.h"

namespace athanor {

// What must survive a restart, beside weights and optimizer state. In a checkpoint its logical tensor is called
// prefix(rank) + "." + the parameter's name:
//
//   error_feedback.RANK.USE.PARAM  of the parameter's shape, one for each of the ranks that its gradient is summed over
//   server_error.USE.PARAM    of the parameter's shape; each rank has a range of it
//   factor.USE.PARAM          [r, C], of a stack [E, r, C], of P parts [P, r, columns of a part]; all ranks that sum
//                             it alike
struct CompressionState {
  SumState::Kind kind;
  const Weight* weight;
  FlatRange range;  // elements of the parameter (a factor: those of its matrix)
  Tensor values;
  int rank, ranks;  // this one, of those that the gradient is summed over
  std::string prefix(int of_rank) const;
};

// What a parameter is to a code: a matrix, or a stack of them.
struct Matrices {
  int64_t count, rows, cols;
};
Matrices matrices_of(const Param& param);

// Which part of a matrix this rank has, of how many: {0, 1} where tensor parallelism does not cut it.
Param::Part matrix_part(const Param& param);

// Whether a matrix is compressed under these options.
bool is_compressed(const Param& param, const CompressionOptions& options);

class CompressedGradients {
 public:
  // `row`: the one of each bucket that this rank codes, with hybrid sharding.
  CompressedGradients(const Buckets& buckets, Group& group, Arena& arena, const CompressionOptions& options,
                      std::optional<int> row = {});

  // `loss_scale`: what the gradients of the step are multiplied by (f16).
  void begin_step(int64_t update, double loss_scale = 1.0);
  void forget();  // of all sums: the step's were not finite
  bool active() const { return active_; }
  bool sums() const { return !active_ || options_.kind != Compression::onebit_adam; }

  // The bucket [rows * count]; with hybrid sharding this rank's row of it.
  void start(size_t bucket, const Tensor& grads);
  void finish(size_t bucket, WaitClock& clock);  // of those that were started, before others
  void finish(WaitClock& clock);                 // all
  std::vector<CompressionState> states() const;

 private:
  struct Piece {  // elements of a weight of a bucket, a tensor of the sum
    size_t slot;
    FlatRange range;
  };
  struct Part {
    std::vector<Piece> pieces;
    std::unique_ptr<CompressedSum> sum;
  };
  void add_part(size_t bucket, const std::vector<size_t>& slots, bool compressed);
  void for_sums(const std::function<void(CompressedSum&)>& body);

  const Buckets& buckets_;
  Group& group_;
  Arena& arena_;
  CompressionOptions options_;
  std::optional<int> row_;
  bool active_ = false;
  std::vector<std::vector<Part>> parts_;  // of each bucket
  std::vector<size_t> started_;           // buckets, in this order
};

}  // namespace athanor
