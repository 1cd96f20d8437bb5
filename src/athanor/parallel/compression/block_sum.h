// Compressed all-reduce of matrices with block codes, in two exchanges: a reduce-scatter in which each block has an
// owner that sums it over the ranks, then an all-gather of the sums. Both are compressed and have error feedback.
//
//   start     p = x + residual;  each encoded block of p to its owner (all_to_all);  residual = p - decoded
//   proceed   sum = decoded blocks of ranks 0 ... n-1, in this order
//             q = sum + sum residual;  encoded q to all ranks (all_gather);  sum residual = q - decoded
//   finish    x = decoded
//
// A tensor's blocks are its elements 256 at a time, and it does not matter which rank owns a block: given the ranks' x,
// the result depends on n alone, not on buckets.
// With SumTensor::needed (ZeRO) the owner of a block is the rank that needs it. There is no second exchange then: x of
// the owner is the sum of the decoded blocks.
// Traffic: a rank sends (n-1) B c bytes in each exchange, c the bytes of an encoded block, B the number of blocks of
// the rank that owns most: ceil(blocks / n) with an even split.
#pragma once

#include "athanor/parallel/compression/block_code.h"
#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/error_feedback.h"

namespace athanor::parallel::compression {

class BlockSum final : public CompressedSum {
 public:
  BlockSum(std::string name, std::vector<SumTensor> tensors, const BlockCode& code, Group& group,
           Arena& arena, bool error_feedback);
  void start(std::vector<Tensor> grads) override;
  void proceed(WaitClock& clock) override;
  void finish(WaitClock& clock) override;
  void set_unit(double unit) override {
    for (ErrorFeedback* feedback : {&feedback_, &sum_feedback_}) feedback->set_unit(unit);
  }
  void forget() override {
    for (ErrorFeedback* feedback : {&feedback_, &sum_feedback_}) feedback->clear();
  }
  std::vector<SumState> states() const override;

 private:
  struct Block {
    size_t tensor;
    int64_t first, count;  // elements of it
    int64_t slot;          // owner * slots_ + its number among the owner's blocks
  };
  void deal_out();
  // body(block) for all blocks, or only for the blocks that this rank owns.
  template <typename Body>
  void for_blocks(bool all, const Body& body);
  std::byte* code_at(const Tensor& codes, int64_t slot) const {
    return static_cast<std::byte*>(codes.raw()) + slot * code_.bytes;
  }
  float* values(const Block& block) const { return grads_[block.tensor].data<float>() + block.first; }

  std::string name_;
  std::vector<SumTensor> tensors_;
  const BlockCode& code_;
  Group& group_;
  Arena& arena_;
  bool both_ways_;
  std::vector<Block> blocks_;  // by slot
  std::pair<size_t, size_t> mine_{0, 0};
  int64_t slots_ = 0;  // slots per rank: the blocks of the rank that owns most
  ErrorFeedback feedback_, sum_feedback_;
  std::vector<Tensor> grads_;
  Tensor sent_, received_;  // u8 [n, slots, code bytes]
  Work work_;
};

}  // namespace athanor::parallel::compression
