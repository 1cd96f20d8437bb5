#include "athanor/parallel/compression/block_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace athanor::parallel::compression {
namespace {

constexpr int64_t kBlocksPerTask = 64;

}  // namespace

BlockSum::BlockSum(std::string name, std::vector<SumTensor> tensors, const BlockCode& code, Group& group,
                   Arena& arena, bool error_feedback)
    : name_(std::move(name)),
      tensors_(std::move(tensors)),
      code_(code),
      group_(group),
      arena_(arena),
      both_ways_(tensors_.empty() || tensors_.front().needed.empty()),
      feedback_(numels_of(tensors_), arena, error_feedback),
      sum_feedback_({}, arena, false) {
  deal_out();
  if (both_ways_) sum_feedback_ = ErrorFeedback({slots_ * kCodeBlock}, arena, error_feedback);
}

void BlockSum::deal_out() {
  std::vector<std::vector<Block>> of_rank(static_cast<size_t>(group_.size()));
  int64_t total = 0, number = 0;
  for (const SumTensor& tensor : tensors_) total += (tensor.numel() + kCodeBlock - 1) / kCodeBlock;
  const int64_t even = (total + group_.size() - 1) / group_.size();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const auto& needed = tensors_[t].needed;
    const int64_t numel = tensors_[t].numel();
    for (int64_t first = 0; first < numel; first += kCodeBlock, ++number) {
      const auto owner =
          both_ways_ ? static_cast<size_t>(number / even)
                     : static_cast<size_t>(std::find_if(needed.begin(), needed.end(),
                                                        [&](const FlatRange& r) { return first < r.last; }) -
                                           needed.begin());
      of_rank.at(owner).push_back({t, first, std::min(kCodeBlock, numel - first), 0});
    }
  }
  for (const auto& blocks : of_rank) slots_ = std::max(slots_, static_cast<int64_t>(blocks.size()));
  for (size_t rank = 0; rank < of_rank.size(); ++rank) {
    if (rank == static_cast<size_t>(group_.rank()))
      mine_ = {blocks_.size(), blocks_.size() + of_rank[rank].size()};
    for (size_t k = 0; k < of_rank[rank].size(); ++k) {
      of_rank[rank][k].slot = static_cast<int64_t>(rank) * slots_ + static_cast<int64_t>(k);
      blocks_.push_back(of_rank[rank][k]);
    }
  }
}

template <typename Body>
void BlockSum::for_blocks(bool all, const Body& body) {
  const auto first = static_cast<int64_t>(all ? 0 : mine_.first),
             last = static_cast<int64_t>(all ? blocks_.size() : mine_.second);
  arena_.queue().parallel_for((last - first + kBlocksPerTask - 1) / kBlocksPerTask, [&](int64_t task) {
    const int64_t begin = first + task * kBlocksPerTask, end = std::min(last, begin + kBlocksPerTask);
    for (int64_t b = begin; b < end; ++b) body(blocks_[static_cast<size_t>(b)]);
  });
}

void BlockSum::start(std::vector<Tensor> grads) {
  grads_ = std::move(grads);
  const Shape shape{group_.size() * slots_ * code_.bytes};
  sent_ = empty(arena_, shape, Dtype::u8, Category::communication);
  received_ = empty(arena_, shape, Dtype::u8, Category::communication);
  if (static_cast<int64_t>(blocks_.size()) < group_.size() * slots_) fill_zero(sent_);
  for_blocks(/*all=*/true, [&](const Block& block) {
    feedback_.encode(code_, block.tensor, block.first, block.count, values(block),
                     code_at(sent_, block.slot));
  });
  work_ = group_.all_to_all(sent_.raw(), received_.raw(), slots_ * code_.bytes, Dtype::u8, name_);
}

void BlockSum::proceed(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  const int64_t first_slot = group_.rank() * slots_;
  for_blocks(/*all=*/false, [&](const Block& block) {
    std::array<float, kCodeBlock> sum{}, decoded;
    const int64_t number = block.slot - first_slot;
    for (int rank = 0; rank < group_.size(); ++rank) {
      code_.decode(code_at(received_, rank * slots_ + number), block.count, decoded.data());
      for (int64_t i = 0; i < block.count; ++i)
        sum[static_cast<size_t>(i)] += decoded[static_cast<size_t>(i)];
    }
    if (!both_ways_) {
      std::copy_n(sum.begin(), block.count, values(block));
      return;
    }
    sum_feedback_.encode(code_, 0, number * kCodeBlock, block.count, sum.data(), code_at(sent_, block.slot));
  });
  if (both_ways_)
    work_ = group_.all_gather(code_at(sent_, first_slot), received_.raw(), slots_ * code_.bytes, Dtype::u8,
                              name_ + ": sums");
}

void BlockSum::finish(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  if (both_ways_)
    for_blocks(/*all=*/true, [&](const Block& block) {
      code_.decode(code_at(received_, block.slot), block.count, values(block));
    });
  grads_.clear();
  sent_ = received_ = {};
}

std::vector<SumState> BlockSum::states() const {
  std::vector<SumState> states;
  if (!feedback_.enabled()) return states;
  for (size_t t = 0; t < tensors_.size(); ++t)
    states.push_back({StateKind::residual, t, {0, tensors_[t].numel()}, feedback_.residual(t)});
  if (!sum_feedback_.enabled()) return states;
  // The blocks of a tensor that one rank owns are contiguous, and all but the tensor's last are full.
  for (size_t b = mine_.first; b < mine_.second; ++b) {
    const Block& block = blocks_[b];
    const int64_t at = (block.slot - group_.rank() * slots_) * kCodeBlock;
    const FlatRange range{block.first, block.first + block.count};
    if (!states.empty() && states.back().kind == StateKind::sum_residual &&
        states.back().tensor == block.tensor) {
      states.back().range.last = range.last;
      states.back().values = sum_feedback_.residual(0).flat(at - (block.first - states.back().range.first),
                                                            states.back().range.count());
      continue;
    }
    states.push_back(
        {StateKind::sum_residual, block.tensor, range, sum_feedback_.residual(0).flat(at, range.count())});
  }
  return states;
}

}  // namespace athanor::parallel::compression
