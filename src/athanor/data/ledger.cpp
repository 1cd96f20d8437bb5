#include "athanor/data/ledger.h"

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::data {
namespace {

const char* name_of(Fate fate) {
  return fate == Fate::skipped ? "skipped" : fate == Fate::quarantined ? "quarantined" : "trained";
}

// Calls visit(step, slot, sample, fate) for all samples of the steps. What is skipped is what lies between the batches of
// two steps.
template <typename Visit>
void each_sample(const Sampler& sampler, int64_t first_step, int64_t last_step, const Visit& visit) {
  int64_t next = first_step == sampler.first_step() ? 0 : sampler.batch_of(first_step - 1) + 1;
  for (int64_t step = first_step; step <= last_step; ++step) {
    const int64_t batch = sampler.batch_of(step);
    for (int64_t left_out = 0; next < batch; ++next, left_out += sampler.global_batch())
      for (int64_t slot = 0; slot < sampler.global_batch(); ++slot)
        if (const Sample sample = sampler.sample_of_batch(next, slot); !sample.absent)
          visit(step, left_out + slot, sample, Fate::skipped);
    for (int64_t slot = 0; slot < sampler.global_batch(); ++slot) {
      const Sample sample = sampler.sample(step, slot);
      if (sample.absent) continue;  // nothing stands there
      visit(step, slot, sample, sample.quarantined ? Fate::quarantined : Fate::trained);
    }
    next = batch + 1;
  }
}

std::string text_of(const std::vector<BatchSkip>& skips) {
  std::string text;
  for (const BatchSkip& skip : skips)
    text += fmt::format("{}{} at step {}", text.empty() ? "" : ", ", skip.batches, skip.step);
  return text.empty() ? "none" : text;
}

}  // namespace

LedgerCheck::LedgerCheck(std::vector<Sampler::ChannelShape> channels, bool from_start)
    : channels_(std::move(channels)), states_(channels_.size()) {
  for (size_t c = 0; c < channels_.size(); ++c) {
    states_[c].seen.assign(static_cast<size_t>(channels_[c].num_sequences), false);
    states_[c].skipped = states_[c].seen;
    states_[c].whole = from_start;
    states_[c].totals.name = channels_[c].name;
  }
}

void LedgerCheck::add(int64_t step, int64_t slot, const Sample& sample, Fate fate) {
  check(sample.channel >= 0 && static_cast<size_t>(sample.channel) < channels_.size(),
        "ledger: step {} slot {} is of channel {}, expected 0 to {}", step, slot, sample.channel,
        channels_.size() - 1);
  const auto& shape = channels_[static_cast<size_t>(sample.channel)];
  State& state = states_[static_cast<size_t>(sample.channel)];
  LedgerChannel& totals = state.totals;
  const auto require = [&](bool condition, const std::string& what) {
    check(condition, "ledger: step {} slot {}{}: channel '{}' epoch {} sequence {}: {}", step, slot,
          fate == Fate::trained ? "" : fmt::format(" ({})", name_of(fate)), shape.name, sample.epoch,
          sample.sequence, what);
  };
  require(sample.sequence >= 0 && sample.sequence < shape.num_sequences, "the channel has no such sequence");
  const bool first = totals.samples + totals.skipped + totals.quarantined == 0;
  ++(fate == Fate::skipped       ? totals.skipped
     : fate == Fate::quarantined ? totals.quarantined
                                 : totals.samples);
  if (first) {
    require(!state.whole || sample.epoch == 0, "the first epoch is not 0");
    totals.first_epoch = totals.last_epoch = sample.epoch;
  }
  if (sample.epoch != totals.last_epoch) {
    require(sample.epoch == totals.last_epoch + 1, "does not follow the epoch before");
    if (state.whole && state.num_seen < shape.num_sequences) {
      const auto missing = std::find(state.seen.begin(), state.seen.end(), false);
      require(
          false,
          fmt::format("begins before epoch {} was complete: {} sequences are missing, the first is {}",
                      totals.last_epoch, shape.num_sequences - state.num_seen, missing - state.seen.begin()));
    }
    state.seen.assign(state.seen.size(), false);
    state.skipped.assign(state.skipped.size(), false);
    state.num_seen = 0;
    state.whole = true;
    totals.last_epoch = sample.epoch;
  }
  const auto sequence = static_cast<size_t>(sample.sequence);
  if (state.seen[sequence])
    require(false, state.skipped[sequence] ? "was skipped in this epoch" : "comes twice in its epoch");
  state.seen[sequence] = true;
  state.skipped[sequence] = fate == Fate::skipped;
  if (++state.num_seen == shape.num_sequences && state.whole) ++totals.whole_epochs;
}

LedgerChannel LedgerCheck::channel(size_t index) const {
  return states_.at(index).totals;
}

LedgerReport check_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step) {
  check(first_step >= sampler.first_step() && first_step <= last_step,
        "ledger: got steps {} to {}, expected a range from {} up", first_step, last_step,
        sampler.first_step());
  LedgerCheck ledger(sampler.channels(), first_step == sampler.first_step());
  LedgerReport report;
  Hash128 hash;
  each_sample(
      sampler, first_step, last_step, [&](int64_t step, int64_t slot, const Sample& sample, Fate fate) {
        ledger.add(step, slot, sample, fate);
        if (fate == Fate::skipped) {
          ++report.skipped;
          if (report.skips.empty() || report.skips.back().step != step)
            report.skips.push_back({.step = step, .batches = 0});
          report.skips.back().batches = slot / sampler.global_batch() + 1;
          return;
        }
        if (fate == Fate::quarantined) {
          ++report.quarantined;
          return;
        }
        const std::array<int64_t, 5> row = {step, slot, sample.channel, sample.epoch, sample.sequence};
        hash.update(row.data(), sizeof row);
        ++report.samples;
      });
  std::vector<BatchSkip> decided = sampler.skips();
  std::erase_if(decided,
                [&](const BatchSkip& skip) { return skip.step < first_step || skip.step > last_step; });
  check(report.skips == decided, "ledger: got skipped batches: {}, expected {} as decided",
        text_of(report.skips), text_of(decided));
  report.hash = hash.hex();
  for (size_t c = 0; c < sampler.channels().size(); ++c) report.channels.push_back(ledger.channel(c));
  return report;
}

void write_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step,
                  const std::function<void(std::string_view)>& write) {
  constexpr size_t kPieceBytes = size_t{1} << 16;
  // A channel stands there as its number: a name may hold a comma.
  std::string lines = "step,slot,channel,epoch,sequence,fate\n";
  each_sample(sampler, first_step, last_step,
              [&](int64_t step, int64_t slot, const Sample& sample, Fate fate) {
                lines += fmt::format("{},{},{},{},{},{}\n", step, slot, sample.channel, sample.epoch,
                                     sample.sequence, name_of(fate));
                if (lines.size() < kPieceBytes) return;
                write(lines);
                lines.clear();
              });
  write(lines);
}

}  // namespace athanor::data
