// Gradient compression: reduces complete buckets over the ranks with fewer bytes (docs/compression.md has the methods).
//
//   CompressedGradients compressed(buckets, group, arena, options);
//   compressed.begin_step(update);               // active() is false during the warm-up
//   if (compressed.active()) compressed.start(bucket, grads);
//   compressed.finish(clock);
//
// What is compressed: matrices whose gradient is complete within the data-parallel ranks. Sent as f32: vectors,
// gradients that tensor parallelism still has to sum (Shard::partial), and matrices that would not become smaller.
// A stack of expert matrices [E,R,C] has PowerSGD factors for each matrix, so an expert-parallel rank has the factors
// of its own experts. A rank's part of a tensor-parallel matrix is compressed as a matrix of its own. The gradients of
// a shared parameter's uses are compressed separately. 1-bit Adam sends nothing here: its optimizer does
// (onebit_adam.h), and the gradient stays the rank's own.
// Hybrid sharding (bf16, int8): each shard group sums its gradients exactly; the sums are compressed and exchanged
// between shard groups. `group` are the ranks that hold the same shard, and each compresses its shard. Block codes do
// not depend on where a matrix is partitioned (shard_layout.h).
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/compression.h"
#include "athanor/parallel/data/bucket_exchange.h"

namespace athanor::parallel::compression {

// A parameter as compression sees it: `count` matrices, several in a stack of experts.
struct Matrices {
  int64_t count, rows, cols;
};
Matrices matrices_of(const ParamSpec& param);

// Which part of a tensor-parallel matrix this rank has, of how many parts; {0, 1} where it is not partitioned.
ParamSpec::Part matrix_part(const ParamSpec& param);

// Whether a matrix is compressed under these options.
bool is_compressed(const ParamSpec& param, const CompressionOptions& options);

class CompressedGradients final : public BucketExchange {
 public:
  // `row`: with hybrid sharding the row of each bucket that this rank compresses.
  CompressedGradients(const Buckets& buckets, Group& group, Arena& arena, const CompressionOptions& options,
                      std::optional<int> row = {});

  // `loss_scale`: the factor in the gradients of this step (f16).
  void begin_step(int64_t update, double loss_scale = 1.0) override;
  void forget() override;  // clears the state of all sums: the step's gradients were not finite
  bool active() const override { return active_; }
  bool sums() const override { return !active_ || options_.kind != Compression::onebit_adam; }

  // The bucket [rows * count]; with hybrid sharding this rank's row of it.
  void start(size_t bucket, const Tensor& grads) override;
  void finish(size_t bucket, WaitClock& clock) override;  // this started bucket, before the others
  void finish(WaitClock& clock) override;                 // all started buckets
  std::vector<ExchangeState> states() const override;

 private:
  struct Piece {  // elements of one weight of a bucket: a tensor of the sum
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
  std::vector<size_t> started_;           // buckets, in the order of start()
};

// For DataParallelOptions; none where options.kind is none.
ExchangeMaker compressed_exchange(const CompressionOptions& options);

}  // namespace athanor::parallel::compression
