#include "athanor/data/ledger.h"

#include <array>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::data {

LedgerCheck::LedgerCheck(std::vector<Sampler::ChannelShape> channels, bool from_start)
    : channels_(std::move(channels)), states_(channels_.size()) {
  for (size_t c = 0; c < channels_.size(); ++c) {
    states_[c].seen.assign(static_cast<size_t>(channels_[c].num_sequences), false);
    states_[c].whole = from_start;
    states_[c].totals.name = channels_[c].name;
  }
}

void LedgerCheck::add(int64_t step, int64_t slot, const Sample& sample) {
  check(sample.channel >= 0 && static_cast<size_t>(sample.channel) < channels_.size(),
        "ledger: step {} slot {} is of channel {}, expected 0 to {}", step, slot, sample.channel,
        channels_.size() - 1);
  const auto& shape = channels_[static_cast<size_t>(sample.channel)];
  State& state = states_[static_cast<size_t>(sample.channel)];
  LedgerChannel& totals = state.totals;
  const auto explain = [&](const char* what) {
    return fmt::format("ledger: step {} slot {}: channel '{}' epoch {} sequence {}: {}", step, slot,
                       shape.name, sample.epoch, sample.sequence, what);
  };
  const auto require = [&](bool condition, const char* what) {
    if (!condition) throw Error(explain(what));
  };
  require(sample.sequence >= 0 && sample.sequence < shape.num_sequences, "the channel has no such sequence");
  const bool first = totals.samples++ == 0;
  if (first) {
    require(!state.whole || sample.epoch == 0, "the first epoch is not 0");
    totals.first_epoch = totals.last_epoch = sample.epoch;
  }
  if (sample.epoch != totals.last_epoch) {
    require(sample.epoch == totals.last_epoch + 1, "does not follow the epoch before");
    require(!state.whole || state.num_seen == shape.num_sequences,
            "begins before the last epoch was complete");
    state.seen.assign(state.seen.size(), false);
    state.num_seen = 0;
    state.whole = true;
    totals.last_epoch = sample.epoch;
  }
  const auto sequence = static_cast<size_t>(sample.sequence);
  require(!state.seen[sequence], "comes twice in its epoch");
  state.seen[sequence] = true;
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
  for (int64_t step = first_step; step <= last_step; ++step)
    for (int64_t slot = 0; slot < sampler.global_batch(); ++slot) {
      const Sample sample = sampler.sample(step, slot);
      ledger.add(step, slot, sample);
      const std::array<int64_t, 5> row = {step, slot, sample.channel, sample.epoch, sample.sequence};
      hash.update(row.data(), sizeof row);
      ++report.samples;
    }
  report.hash = hash.hex();
  for (size_t c = 0; c < sampler.channels().size(); ++c) report.channels.push_back(ledger.channel(c));
  return report;
}

void write_ledger(const Sampler& sampler, int64_t first_step, int64_t last_step,
                  const std::function<void(std::string_view)>& write) {
  constexpr size_t kPieceBytes = size_t{1} << 16;
  // A channel stands there as its number: a name may hold a comma.
  std::string lines = "step,slot,channel,epoch,sequence\n";
  for (int64_t step = first_step; step <= last_step; ++step)
    for (int64_t slot = 0; slot < sampler.global_batch(); ++slot) {
      const Sample sample = sampler.sample(step, slot);
      lines += fmt::format("{},{},{},{},{}\n", step, slot, sample.channel, sample.epoch, sample.sequence);
      if (lines.size() < kPieceBytes) continue;
      write(lines);
      lines.clear();
    }
  write(lines);
}

}  // namespace athanor::data
