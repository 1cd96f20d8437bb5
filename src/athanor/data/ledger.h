// The ledger: every sample of a range of steps written down, and checked against law 3 without trusting how
// the sampler works.
//
//   const LedgerReport report = check_ledger(sampler, 1, config.train.steps);   // throws where the law is
//   broken write_ledger(sampler, 1, 100, [&](std::string_view lines) { file->append(lines); });
//
// What is checked: the epochs of a channel follow each other from 0; no sequence comes twice in an epoch; an
// epoch ends only when every sequence has come. A range that begins after step 1 can show only the middle of
// its first epochs: those are checked for repetition. Memory: one bit per sequence. Thread rule: pure
// functions. Errors: Error naming step, slot, channel, epoch and sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/data/sampler.h"

namespace athanor {

struct LedgerChannel {
  std::string name;
  int64_t samples = 0;
  int64_t first_epoch = 0, last_epoch = 0;
  int64_t whole_epochs = 0;  // seen from their first to their last sequence
};

struct LedgerReport {
  int64_t samples = 0;
  std::string
      hash;  // of all (step, slot, channel, epoch, sequence): two runs with the same hash saw the same data
  std::vector<LedgerChannel> channels;
};

LedgerReport check_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step);

// CSV with a header line: step,slot,channel,epoch,sequence. Handed over in pieces of many lines.
void write_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step,
                  const std::function<void(std::string_view)>& write);

// The check itself, for samples from anywhere, in the order of steps and slots.
class LedgerCheck {
 public:
  // from_start: the samples begin with the first of step 1.
  LedgerCheck(std::vector<Sampler::ChannelShape> channels, bool from_start);
  void add(int64_t step, int64_t slot, const Sample& sample);
  LedgerChannel channel(size_t index) const;

 private:
  struct State {
    std::vector<bool> seen;  // [num_sequences], of the present epoch
    int64_t num_seen = 0;
    bool whole = false;  // the present epoch was seen from its start
    LedgerChannel totals;
  };
  std::vector<Sampler::ChannelShape> channels_;
  std::vector<State> states_;
};

}  // namespace athanor
