// One micro-batch of a step: its tokens as tensors, and its losses.
//
//   const MicroBatch micro_batch = make_micro_batch(arena, state, batch, context);
//   MicroBatchLosses losses(num_micro_batches, num_channels);
//   losses.add(number, batch, context, loss_of_tokens);
//   ... losses.values are summed over the ranks ...
//   losses.means().loss
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/data/batch.h"
#include "athanor/engine/model_stage.h"
#include "athanor/engine/state.h"
#include "athanor/parallel/context/context_parallel.h"

namespace athanor::engine {

// The token ids of a batch as a tensor [B,T] i32.
Tensor to_tensor(Arena& arena, const std::vector<int32_t>& ids, int64_t batch, int64_t length);

// A micro-batch of step state.step + 1. With context parallelism (`context`) it has this rank's tokens of each
// sequence; null: whole sequences.
MicroBatch make_micro_batch(Arena& arena, const TrainState& state, const Batch& batch,
                            const ContextParallel* context);

// Loss sums and numbers of targets of each micro-batch and channel, and what all ranks have to know of each other. Entries of
// other ranks' micro-batches are zero. Adding zeros is exact, so an all-reduce collects the entries of all ranks unchanged.
struct MicroBatchLosses {
  // Sums over the ranks; those that ask for something count the ranks that do.
  enum class Note : uint8_t { stop, not_finite, damaged, update_squares, weight_squares };
  static constexpr size_t kNumNotes = 5;
  MicroBatchLosses(int64_t num_micro_batches, int64_t num_channels)
      : micro_batches(num_micro_batches),
        channels(num_channels),
        values(count(num_micro_batches, num_channels), 0.0) {}
  static size_t count(int64_t num_micro_batches, int64_t num_channels) {
    return static_cast<size_t>(num_micro_batches * (num_channels * 2 + 1)) + kNumNotes;
  }
  double& loss(int64_t micro_batch, int64_t channel) {
    return values[static_cast<size_t>((micro_batch * channels + channel) * 2)];
  }
  double& tokens(int64_t micro_batch, int64_t channel) {
    return values[static_cast<size_t>((micro_batch * channels + channel) * 2 + 1)];
  }
  // Tokens that went through the model, whether or not they are targets.
  double& read(int64_t micro_batch) {
    return values[static_cast<size_t>(micro_batches * channels * 2 + micro_batch)];
  }
  double& note(Note note) { return values[values.size() - kNumNotes + static_cast<size_t>(note)]; }
  void add(int64_t micro_batch, const Batch& batch, const ContextParallel* context, const Tensor& of_tokens);

  double tokens_of(int64_t first, int64_t last);  // tokens of micro-batches [first, last)
  struct Means {
    double loss = 0.0;            // per token, nats
    std::vector<double> channel;  // NaN for a channel without tokens
    int64_t tokens = 0;           // targets, by which the sums are divided
    int64_t read = 0;
  };
  Means means();  // sums over the micro-batches in the fixed tree of comm/tree.h

  int64_t micro_batches, channels;
  std::vector<double> values;
};

}  // namespace athanor::engine
