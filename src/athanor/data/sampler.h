// The sampler: which sequence is in slot j of the global batch of step s. A pure function of (seed, phase, skips, s, j)
// (law 3), so the order of the data does not depend on ranks, restarts or batch shapes, and resuming needs no other state.
//
//   const Sampler sampler({{"en", 0.7, 90000}, {"code", 0.3, 40000}}, seed, global_batch);
//   const Sample sample = sampler.sample(step, slot);   // steps count from 1, slots from 0
//
// The channel and its draw number k come from Mixture. Draw k of a channel with S sequences is number k mod S of epoch
// k div S, shuffled by a Permutation keyed by (seed, name of the channel, epoch). So each sequence of a channel occurs
// exactly once per epoch of that channel; ledger.h proves it for a run.
//
// A phase of a run (config/phases.h) has an order and epochs of its own: its name is part of the key, and draws count from
// its first step. A run without phases has the phase with no name, whose name is no part of the key.
//
//   const Sampler in_phase({{"books", 1.0, 5000}}, seed, global_batch, {"long context", 101});   // from step 101
//
// A skip leaves out global batches: from its step on, the steps of the phase have the batches that come `batches` later.
// Those left out count in their epochs as if they had been trained on; ledger.h lists them.
//
//   const Sampler later({{"en", 1.0, 5000}}, seed, global_batch, {.skips = {{.step = 7, .batches = 2}}});
//   const bool same = later.sample(7, 0) == sampler.sample(9, 0);   // true: the batches 6 and 7 are left out
//
// Of a text that has no end yet (data/spool) an epoch is a window of it: each sequence occurs once, in an order that is shuffled
// within its window.
//
// A sequence may be in quarantine from a step on: it keeps its places in the order, is marked there, and is not trained on.
//
// O(channels + skips) time, no memory. Thread rule: const, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/philox.h"
#include "athanor/data/mixture.h"

namespace athanor::data {

struct Sample {
  int channel = 0;
  int64_t epoch = 0;     // of the channel, from 0
  int64_t sequence = 0;  // in the channel
  bool quarantined = false;
  bool absent = false;  // the text of its channel has ended before it: the place stays empty
  bool operator==(const Sample&) const = default;
};

struct BatchSkip {
  int64_t step = 1;     // of the run: the first step that it holds for
  int64_t batches = 1;  // of the phase that the step is in
  bool operator==(const BatchSkip&) const = default;
};

struct QuarantinedSequence {
  int64_t step = 1;  // of the run: the first step that it holds for
  int channel = 0;
  int64_t sequence = 0;
  int64_t epoch = -1;  // -1: in every epoch
};

struct SamplePhase {
  std::string name = {};              // without a '/', which separates the parts of a key
  int64_t first_step = 1;             // of the run
  std::vector<BatchSkip> skips = {};  // those of steps before the phase are of no account
  std::vector<QuarantinedSequence> quarantine = {};
};

class Sampler {
 public:
  struct ChannelShape {
    std::string name;
    double weight = 1.0;
    int64_t num_sequences = 0;  // at least 1 where the weight is above 0; of a text without end: of a window
    int64_t ends_after =
        -1;  // sequences in all, of a text that has ended (data/spool); -1: epochs follow epochs
  };
  Sampler(std::vector<ChannelShape> channels, uint64_t seed, int64_t global_batch, SamplePhase phase = {});

  Sample sample(int64_t step, int64_t slot) const;  // a step of the run, from the first of the phase

  // The number of a step's batch in the order of the phase, from 0; equal to the steps before it where none was skipped.
  int64_t batch_of(int64_t step) const;
  Sample sample_of_batch(int64_t batch, int64_t slot) const;  // not marked

  // How many sequences of a channel the phase has drawn before a step; and the draw, in its epoch, of a sequence.
  int64_t drawn_before(int64_t step, int channel) const;
  int64_t sequence_of(int channel, int64_t epoch, int64_t number) const;

  int64_t global_batch() const { return global_batch_; }
  int64_t first_step() const { return phase_.first_step; }
  const std::vector<BatchSkip>& skips() const { return phase_.skips; }  // of the phase
  const std::vector<ChannelShape>& channels() const { return channels_; }

 private:
  std::vector<ChannelShape> channels_;
  std::vector<RandomStream> shuffles_;  // one per channel
  Mixture mixture_;
  int64_t global_batch_;
  SamplePhase phase_;
  std::map<std::array<int64_t, 3>, int64_t> quarantined_from_;  // (channel, epoch or -1, sequence) -> step
};

}  // namespace athanor::data
