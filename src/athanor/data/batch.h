// The tokens of one grain: micro_batch sequences of a step's global batch, the unit of work.
//
//   const BatchReader reader(dataset.channels, sampler, config.train.micro_batch_size);
//   Batch batch;
//   for (int64_t grain = 0; grain < reader.num_grains(); ++grain) reader.read(step, grain, batch);
//
// Grain g of step s holds the slots [g * micro_batch, min((g + 1) * micro_batch, global_batch)) of the step.
// Thread rule: a reader is const and serves any thread; a batch belongs to one.
// Errors: an id outside the vocabulary is an Error naming channel, position and id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "athanor/data/channel.h"
#include "athanor/data/sampler.h"

namespace athanor {

struct Batch {
  int64_t step = 0, grain = 0;
  int64_t first_index = 0;          // slot of the first sequence in the global batch of the step
  int64_t num_sequences = 0;        // B; the last grain of a step may be smaller
  int64_t seq_len = 0;              // T
  std::vector<int32_t> tokens;      // [B,T]
  std::vector<int32_t> targets;     // [B,T]: targets[b,t] follows tokens[b,t]
  std::vector<int32_t> channel_of;  // [B]: index into the channels
  // [B,T]: the position where each token's document begins, before which it attends to nothing; empty: sequences are
  // one document, as far as attention goes.
  std::vector<int32_t> document_starts = {};
};

class BatchReader {
 public:
  // The channels must outlive the reader and be those of the sampler, in its order.
  BatchReader(std::span<const Channel> channels, Sampler sampler, int64_t micro_batch);

  int64_t num_grains() const;                                  // of every step
  void read(int64_t step, int64_t grain, Batch& batch) const;  // reuses the batch's memory
  const Sampler& sampler() const { return sampler_; }
  int64_t micro_batch() const { return micro_batch_; }

 private:
  std::span<const Channel> channels_;
  Sampler sampler_;
  int64_t micro_batch_, seq_len_;
};

// The sampler of these channels.
Sampler make_sampler(std::span<const Channel> channels, uint64_t seed, int64_t global_batch);

}  // namespace athanor
