// Batches: the tokens of one micro-batch, which is micro_batch_size sequences of a step's global batch and the unit of work that
// data-parallel ranks share. micro_batch_size × data-parallel ranks × accumulation = global_batch.
//
//   const BatchReader reader(dataset.channels, sampler, config.train.micro_batch_size);
//   Batch batch;
//   for (int64_t micro_batch = 0; micro_batch < reader.num_micro_batches(); ++micro_batch) reader.read(step, micro_batch, batch);
//
// Micro-batch g of step s holds the slots [g * micro_batch_size, min((g + 1) * micro_batch_size, global_batch)) of the step.
// Thread rule: a reader is const and serves any thread; a batch belongs to one thread.
// A sequence in quarantine (sampler.h) has the ids 0 and no targets. Loss and gradients are sums over the targets, divided
// by the number of targets in the step: tokens that the loss mask (loss_mask.h) leaves out do not count either. Padding of
// packed sequences has the ids 0, no targets, and sees nothing but itself where there is a document mask. The target of a
// token is the one after it, or what the objective of the channels makes of the sequence (objectives/objective.h).
// Errors: Error naming channel, position and id for an id outside the vocabulary, where that is not reported.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/data/channel.h"
#include "athanor/data/sampler.h"

namespace athanor::data {

struct Batch {
  int64_t step = 0, micro_batch = 0;
  int64_t first_index = 0;          // slot of the first sequence in the global batch of the step
  int64_t num_sequences = 0;        // B; the last micro-batch of a step may be smaller
  int64_t seq_len = 0;              // T
  std::vector<int32_t> tokens;      // [B,T]
  std::vector<int32_t> targets;     // [B,T]: what is to be said at each place; kNoTarget: nothing
  std::vector<int32_t> channel_of;  // [B]: index into the channels
  // Document mask, [B,T]: the position in the sequence where each token's document begins; the token attends to nothing
  // before it. Empty: no mask, a token attends to its whole sequence.
  std::vector<int32_t> document_starts = {};
  // Beside it where tokens see later ones (data/objectives): the position after each token's document.
  std::vector<int32_t> document_ends = {};
  // What was found of sequences that are not known to be damaged. They have no targets, as those in quarantine.
  std::vector<DamagedToken> damage = {};
};

// A damaged token whose sequences are not trained on.
struct Quarantine {
  int64_t step = 1;           // of the run: the first step that it holds for
  std::string channel, file;  // a file of this name, in whatever folder
  int64_t offset = 0;
  bool operator==(const Quarantine&) const = default;
};

enum class OnDamage : uint8_t { fail, report };  // an Error; Batch::damage

// The position after the document of each token [B,T], by where their documents begin.
std::vector<int32_t> document_ends_of(std::span<const int32_t> starts, int64_t seq_len);

class BatchReader {
 public:
  // The channels must outlive the reader and be those of the sampler, in its order.
  BatchReader(std::span<const Channel> channels, Sampler sampler, int64_t micro_batch_size,
              OnDamage on_damage = OnDamage::fail);

  int64_t num_micro_batches() const;                                 // micro-batches of a step
  void read(int64_t step, int64_t micro_batch, Batch& batch) const;  // reuses the batch's memory
  // Whether all that a step reads is known, which waits only for texts without end; those of steps before it are.
  bool has(int64_t step) const;
  // The channel whose text has ended so that neither this step nor a later one has a sequence of it; none while more may come.
  // Where has(step), the same answer in every process.
  std::optional<std::string> ended_before(int64_t step) const;
  const Sampler& sampler() const { return sampler_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }

 private:
  struct Row {
    std::span<int32_t> tokens, targets, starts;  // [T]; starts may be empty
  };
  void read_sequence(const Sample& sample, const Row& row, std::vector<int32_t>& ids,
                     std::vector<DamagedToken>& damage) const;

  std::span<const Channel> channels_;
  Sampler sampler_;
  int64_t micro_batch_size_, seq_len_;
  OnDamage on_damage_;
};

// The sampler of these channels, in a phase of the run (sampler.h). Quarantines of other channels and files are of no account.
Sampler make_sampler(std::span<const Channel> channels, uint64_t seed, int64_t global_batch,
                     SamplePhase phase = {}, const std::vector<Quarantine>& quarantines = {});

}  // namespace athanor::data
