// Sums of matrices sent as block codes, in two exchanges: every block belongs to a rank, which gets it from all others,
// adds them in rank order and sends the sum on.
//
//   start     p = x + residue;  block codes of p to their owners (all_to_all);  residue = p - decoded
//   proceed   sum = decoded blocks of ranks 0 ... n-1, in this order
//             q = sum + sum residue;  its codes to all (all_gather);  sum residue = q - decoded
//   finish    x = decoded
//
// A tensor's blocks are its elements 256 at a time, so the result does not depend on buckets, and who adds up a block
// makes no difference either: given the ranks' x, it is a function of n alone. With SumTensor::needed a block belongs
// to the rank that needs it and the second exchange falls away: x there is the sum of the decoded blocks.
// A rank sends (n-1) B c bytes in each exchange: c the bytes of a code, B the blocks of the rank that has most,
// ceil(blocks / n) where they are shared out evenly.
#pragma once

#include "athanor/parallel/compression/block_code.h"
#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/error_feedback.h"

namespace athanor {

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
    int64_t slot;          // owner * slots_ + its number among the owner's
  };
  void deal_out();
  // body(block) for every block, or for those of this rank.
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
  int64_t slots_ = 0;  // of a rank
  ErrorFeedback feedback_, sum_feedback_;
  std::vector<Tensor> grads_;
  Tensor sent_, received_;  // u8 [n, slots, code bytes]
  Work work_;
};

}  // namespace athanor
