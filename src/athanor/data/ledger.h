// The ledger lists every sample of a range of steps, trained on or skipped, and checks law 3 on the list (each sequence
// once per epoch), without trusting how the sampler works.
//
//   const LedgerReport report = check_ledger(sampler, 1, config.train.steps);   // throws if the law is broken
//   write_ledger(sampler, 1, 100, [&](std::string_view lines) { file->append(lines); });
//
// Checked for every channel: its epochs follow each other from 0; no sequence occurs twice in an epoch; an epoch ends
// only when every sequence has occurred. A sample that a decision skips (sampler.h) occurs as skipped, and the batches
// skipped are those that the decisions name. A sample in quarantine occurs as that, in its own slot. For a range that begins after the first step (of the sampler's phase) the first
// epoch of a channel is checked for repetition only, because its beginning is not in the range. Memory: two bits
// per sequence. Thread rule: pure functions. Errors: Error naming step, slot, channel, epoch and sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/data/sampler.h"

namespace athanor::data {

enum class Fate : uint8_t { trained, skipped, quarantined };

struct LedgerChannel {
  std::string name;
  int64_t samples = 0;  // trained on
  int64_t skipped = 0;
  int64_t quarantined = 0;
  int64_t first_epoch = 0, last_epoch = 0;
  int64_t whole_epochs = 0;  // complete epochs in the range, skipped samples included
};

struct LedgerReport {
  int64_t samples = 0;                   // trained on
  std::vector<BatchSkip> skips = {};     // found in the range
  int64_t skipped = 0, quarantined = 0;  // samples
  // Of all (step, slot, channel, epoch, sequence) trained on: two runs with the same hash saw the same data.
  std::string hash;
  std::vector<LedgerChannel> channels;
};

LedgerReport check_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step);

// CSV with a header line: step,slot,channel,epoch,sequence,fate. Samples that are skipped stand before those of the step
// that skips them, their slots counted through all of its skipped batches. `write` gets many lines at a time.
void write_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step,
                  const std::function<void(std::string_view)>& write);

// The check itself, for samples from any source, in the order of steps and slots, skipped ones before those of their step.
class LedgerCheck {
 public:
  // from_start: the samples begin with the first of the phase.
  LedgerCheck(std::vector<Sampler::ChannelShape> channels, bool from_start);
  void add(int64_t step, int64_t slot, const Sample& sample, Fate fate = Fate::trained);
  LedgerChannel channel(size_t index) const;

 private:
  struct State {
    std::vector<bool> seen, skipped;  // [num_sequences], of the present epoch
    int64_t num_seen = 0;
    bool whole = false;  // the samples include the start of the present epoch
    LedgerChannel totals;
  };
  std::vector<Sampler::ChannelShape> channels_;
  std::vector<State> states_;
};

}  // namespace athanor::data
